"""Share groups at the leaders of partitions (KIP-932).

``share_partitions`` keeps the state machine of each share-partition whose partition this broker
leads, reads and writes its stored state, and ends locks. ``delayed_fetch`` acquires records for a
ShareFetch, which waits in a purgatory for some. A record is available, acquired (by which member,
until when) or done; a change is written to the share coordinator before it counts, and undone if
that fails, so that the next leader reads it there. The handlers of ``apis/share`` call both. Start
with ``share_partitions``.
"""
