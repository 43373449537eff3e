"""The decisions of share groups (KIP-932): members of which several may read one partition. Pure
functions.

Start with ``group``, what is stored of a group, and ``heartbeat``, the request of its members.
``states`` says which share-partitions have a state at the share coordinators: only these are
assigned (``assignor``).
"""
