"""APIs of groups of all kinds and their offsets: each file has the handlers of the messages of its
name, which hand the request to the group coordinator.

``described_groups``, ``member_guard`` and ``feature_guards`` are what several of them share. Only
``apis/table`` imports the files. Start with ``join_group`` or ``consumer_group_heartbeat``.
"""
