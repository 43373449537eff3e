"""Verbs that run processes: a cluster, a broker, a ZooKeeper; and that stop or diagnose them."""
