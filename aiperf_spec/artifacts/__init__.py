"""A run's files, in AIPerf's shapes."""
