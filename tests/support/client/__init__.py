"""A fake cluster for tests of the client package: brokers that respond out of dictionaries.

Independent client libraries are in ``tests/support/clients``.
"""
