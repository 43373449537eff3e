"""Reading records for consumers and followers: sessions, parked fetches, reads from disk.

``requests/fetch.py`` calls ``sessions.py`` and ``record_fetches.py``. Start reading at the latter,
then ``reader.py``.
"""
