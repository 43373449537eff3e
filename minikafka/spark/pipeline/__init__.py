"""Spark Declarative Pipelines over topics: made, checked, run, replayed, watched."""
