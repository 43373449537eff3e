"""What a client decides without waiting: which partition, which batch, which records."""
