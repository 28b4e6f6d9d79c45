"""Send a run's requests: schedule, conversations, processes, event loop."""
