"""Tests of other clients. A package, so that shared brokers end with its last test."""
