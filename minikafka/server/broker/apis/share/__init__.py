"""The APIs of share groups (KIP-932) below the membership: fetching, acknowledging, and the states
of share-partitions, which brokers keep at the share coordinator.

The members' heartbeats, descriptions and offsets are in the room ``groups``.
"""
