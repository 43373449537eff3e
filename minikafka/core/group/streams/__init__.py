"""The decisions of streams groups (KIP-1071). Pure functions.

The first member sends the topology of the application. ``topology`` computes which topics it needs
and how many tasks it has, ``assignor`` the target tasks of each member, and ``reconciliation`` the
steps of a member towards its target. ``streams_groups`` calls the room. Start with ``group``, the
stored state of a group, and ``heartbeat``, the request of its members.
"""
