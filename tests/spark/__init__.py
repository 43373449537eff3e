"""Tests of Spark with brokers. A package, so that both end with its last test."""
