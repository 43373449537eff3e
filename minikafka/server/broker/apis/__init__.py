"""The APIs that a broker serves, one file for each or for a few that share their messages.

``pipeline`` takes a request from its frame to its reply; ``api`` says what the row of an API has,
and ``table`` finds it. Start with ``groups/offset_delete``: its handler, who may call it, its row.
The node makes ``services``, what handlers are made from; nobody else calls this room.
"""
