"""Loads, campaigns and checks for clusters of ``minikafka.testing.simulator``.

Start with ``scenario``: a cluster under load, a fault, and every check afterwards. The campaigns
run scenarios under many seeds, also from the command line.
"""
