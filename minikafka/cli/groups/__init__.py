"""Verbs that show and change consumer groups and transactions."""
