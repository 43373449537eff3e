"""ZooKeeper for tests: real server processes, an ensemble of them, and sessions without a network.

``process`` starts one real server and ``ensemble`` three; ``direct`` serves unit tests from the
simulated znode tree. Whole clusters under a seed use ``minikafka.world.sim`` instead.
"""
