"""Values that the parts of the program hand to each other."""
