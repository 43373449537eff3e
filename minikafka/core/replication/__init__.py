"""Replication decided purely: roles, in-sync replicas, high watermark, truncation."""
