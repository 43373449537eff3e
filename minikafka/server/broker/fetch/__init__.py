"""Reading records for consumers and followers: sessions, parked fetches, reads from disk.

``apis/records/fetch.py`` calls ``sessions.py`` and ``record_fetches.py``. Start reading at
``fetch_operation.py``, which has the states of a Fetch, then ``record_fetches.py``, ``reader.py``.
"""
