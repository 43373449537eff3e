"""Tests of clusters of processes. A package, so that shared brokers end with its last test."""
