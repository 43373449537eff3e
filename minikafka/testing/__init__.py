"""Clusters for the tests of applications, three kinds of them.

``view.py`` is what a test sees of a cluster inside the process (``minikafka.inside``),
``processes.py`` runs real processes with a real ZooKeeper, ``simulated.py`` a cluster in simulated
time. ``plugin.py`` defines the pytest fixtures.
"""
