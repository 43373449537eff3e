"""A history checker for clusters: it writes and reads records, and reports lost or wrong ones."""
