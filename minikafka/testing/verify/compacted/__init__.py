"""The workload ``compacted``: few keys with many versions and tombstones, and full readings."""
