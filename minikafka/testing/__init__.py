"""Clusters for the tests of applications, three kinds of them.

``inside.py`` runs brokers inside the process, ``processes.py`` real processes with a real
ZooKeeper, ``simulated.py`` a cluster in simulated time. ``plugin.py`` defines the pytest fixtures
``minikafka_cluster`` (processes) and ``simulated_cluster``.
"""
