"""Read what a server counts itself during a run, and hold it against what its responses reported."""
