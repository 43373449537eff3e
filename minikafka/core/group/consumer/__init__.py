"""The decisions of consumer groups with the protocol of KIP-848. Pure functions.

The coordinator computes a target assignment of the whole group (``assignors``) and leads each
member towards its own part of it (``reconciliation``). Start with ``group``, what is stored of a
group, and ``heartbeat``, the request of its members. ``classic_members`` are those that still speak
the older protocol.
"""
