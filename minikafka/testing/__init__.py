"""Clusters as pytest fixtures, for the tests of applications."""
