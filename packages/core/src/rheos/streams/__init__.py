"""Streams as values: actors, the closed vocabulary, the graph that it builds, and ways to look at it."""
