"""Write a run's files."""
