"""Group and transaction coordinators (to come)."""
