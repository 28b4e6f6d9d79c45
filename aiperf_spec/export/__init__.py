"""Write a run's files in AIPerf's shapes, and read them back."""
