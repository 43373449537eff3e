"""Decisions about a partition's log: what may be appended, by whom, what survives a crash."""
