"""Fakes and contract suites for those who write algorithms and plugins."""
