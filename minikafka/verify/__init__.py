"""A history checker for clusters: writes, reads, and says what was promised and not kept."""
