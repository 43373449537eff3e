"""Verbs that show and change groups of all types and transactions.

``cli/main`` imports the verb that is asked for: ``groups``, ``share_groups``, ``streams_groups`` or
``transactions``. ``group_actions`` is what the first three share.
"""
