"""Decisions of a migration between Kafka and minikafka: findings about a cluster, and the steps.

Pure functions of ``ClusterFacts``. The verb ``minikafka migrate`` gathers the facts and prints the
results. Start reading at ``steps.py``.
"""
