"""Share groups (KIP-932) below the membership: the states of a share-partition's records.

``server`` keeps share-partitions at the leaders of their partitions, and their stored states at the
share coordinator. Start with ``persister``, the interface between the two.
"""
