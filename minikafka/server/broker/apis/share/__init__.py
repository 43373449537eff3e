"""The APIs of share groups (KIP-932) below the membership: ShareFetch, ShareAcknowledge, and the
requests of brokers to the share coordinator.

Heartbeats, descriptions and offsets of share groups are in the room ``groups``. Only ``apis/table``
imports the files. Start with ``share_fetch``.
"""
