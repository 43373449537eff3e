"""What the groups of the newer protocols have in common: consumer groups (KIP-848), share groups
(KIP-932), Streams groups (KIP-1071).

The coordinator of such a group assigns by itself. The group is what its records say, and a decision
is a list of changed records. Start with ``group``, the state of a group, and ``changes``; the
decisions of each kind are in a room of its own.
"""
