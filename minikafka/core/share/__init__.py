"""Share groups (KIP-932) below the membership: the states of a share-partition's records.

``share_partition`` is the state machine at the leader of a partition, ``state_shard`` that of the
share coordinator, which stores the states. Start with ``persister``, the interface between the two.
"""
