"""A whole cluster in one process under one seed: the cluster, faults for it, and checks of it.

``minikafka.testing`` offers it to applications; the loads and campaigns of this project's own tests
are in ``tests/support/simulated``. Start with ``cluster``.
"""
