"""The decisions of share groups (KIP-932), in which several members may read one partition. Pure
functions.

``share_groups`` calls them. Start with ``group``, the stored state of a group, and ``heartbeat``,
the request of its members. ``states`` tracks which share-partitions have a state at the share
coordinators: ``assignor`` assigns only these.
"""
