"""Parts of a broker for tests, in one process.

Start with ``replicas``: replica managers of several brokers that replicate to each other.
"""
