"""A whole cluster in one process under one seed: the cluster, its faults and its checks.

``minikafka.testing`` offers it to applications. The loads and campaigns of this project's tests are
in ``tests/support/simulated``. Start reading at ``cluster.py``.
"""
