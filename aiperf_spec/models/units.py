"""Nanoseconds, in which the program counts, in the units that it shows."""

NS_PER_MS = 1e6
NS_PER_S = 1e9
