"""Reading records for consumers and followers: sessions, parked fetches, reads from disk.

``apis/records/fetch.py`` calls ``sessions.py`` and ``record_fetches.py``. Start reading at
``record_fetches.py``, which has the states of a Fetch, then ``reader.py``.

A follower reads up to the log end, a consumer up to the high watermark or the last stable offset.
An offset inside a batch returns the whole batch. The response leaves at once if there are enough
bytes, an error, or ``max_wait_ms`` is 0. Otherwise the Fetch is parked until an append, a new high
watermark, a change of role or its time-out, and is read again. Fetches that want the same records
in one turn of the loop share a read.

The loop never waits for a disk: a thread reads records outside the page cache into it first. A
Fetch of thousands of partitions is read in slices, and a partition at rest costs a follower's
session nothing, on either side (``follower_sessions``, ``core/replication/fetch_state``).
"""
