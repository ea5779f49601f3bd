"""Executors: the protocol, the host around every actor, and the reference executor `inline`."""
