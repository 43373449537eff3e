"""The decisions of streams groups (KIP-1071). Pure functions.

The first member sends the topology of the application. ``topology`` says what topics it needs and
how many tasks it has, ``assignor`` which member shall have which task, and ``reconciliation`` leads
each member there. Start with ``group``, what is stored of a group, and ``heartbeat``, the request
of its members.
"""
