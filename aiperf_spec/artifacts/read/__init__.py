"""Read runs back from their files, ours or AIPerf's."""
