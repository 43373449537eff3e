"""The decisions of consumer groups with the protocol of KIP-848. Pure functions.

The coordinator computes a target assignment of the whole group (``assignors``) and leads each
member towards its own part of it (``reconciliation``).
"""
