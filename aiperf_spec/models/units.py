"""Nanoseconds, in which the program counts, in the units that it shows."""

NS_PER_MS = 1e6
NS_PER_S = 1e9
MAX_FIGURE = 9e12
"""The largest figure that is taken from a server or a file: as nanoseconds, so many milliseconds still fit 64 bits."""
