"""The workload ``append``: idempotent producers, and readers by assignment."""
