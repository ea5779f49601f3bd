"""Replay: what was experienced is kept, and learned from again, more often where more is to be learned."""
