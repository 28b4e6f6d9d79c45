"""The settings of a run, and what they are read from: options, a YAML file, URLs."""
