"""Verbs that write, read, measure and verify records."""
