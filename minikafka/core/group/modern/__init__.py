"""The common base of consumer groups (KIP-848), share groups (KIP-932) and streams groups
(KIP-1071), whose coordinator computes the assignments.

The state of such a group is the set of its records, and a decision is a list of changed records.
``modern_groups`` carries decisions out; the rooms ``consumer``, ``share`` and ``streams`` make
them. Start with ``group``, then ``changes`` and ``admission``.
"""
