"""Clusters as pytest fixtures, for the tests of applications.

``plugin.py`` defines the fixtures: ``minikafka_cluster`` starts processes (``processes.py``), and
``simulated_cluster`` runs a cluster in simulated time (``simulated.py``).
"""
