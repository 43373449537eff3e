"""Tests beside official Kafka. A package, so that their ZooKeeper ends with its last test."""
