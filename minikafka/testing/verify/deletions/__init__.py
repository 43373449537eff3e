"""The workload ``delete-records``: ``append`` while an administrator deletes records."""
