"""Loads, campaigns and checks for simulated clusters; ``minikafka.simulator`` provides the cluster.

Start with ``scenario``: a cluster under load, a fault, and every check afterwards. The campaigns
run scenarios under many seeds, also from the command line.
"""
