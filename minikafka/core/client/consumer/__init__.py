"""The state and the calls of consumers: positions, fetched records, group membership and offsets.

The asyncio consumer (``client/consumer``), the Spark reader and the admin client call it.
Start reading at ``positions.py`` for fetching and at ``membership.py`` for consumer groups.
"""
