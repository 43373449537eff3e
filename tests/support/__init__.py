"""Helpers that tests share, in rooms by subject. Tests import them; nothing here imports a test."""
