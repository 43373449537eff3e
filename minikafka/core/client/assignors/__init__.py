"""Who of a group consumes what: Kafka's four strategies as pure functions."""
