"""What metrics are called elsewhere. ``object_names`` reads Kafka's names of MBeans,
``prometheus`` writes them under the names that dashboards for Kafka query.
Pure functions; ``node/metrics_listener`` serves the text, ``kernel/metrics`` holds the values."""
