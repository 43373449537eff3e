"""Spark finds the data source here: it imports every top-level module named ``pyspark_...``."""

from minikafka.spark.source import DefaultSource

__all__ = ["DefaultSource"]
