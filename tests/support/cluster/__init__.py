"""Real processes for tests: clusters, their load, and the network and containers around them.

Start with ``real_cluster``; ``leaders`` waits until the leaders of a topic serve requests.
"""
