"""Benchmarks: figures of the brokers beside figures of a bare probe, taken in the same run."""
