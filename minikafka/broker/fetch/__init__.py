"""Reading records for consumers and followers: sessions, long polls, reads from disk.

``requests/fetch.py`` calls this room. Start reading at ``reader.py``.
"""
