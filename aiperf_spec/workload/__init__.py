"""Which prompts are sent, and in which order."""
