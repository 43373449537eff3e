"""A view of a cluster, over the wire only (to come)."""
