"""The accepted connections of a broker: listeners, requests, ordered replies, and HTTP.

Owns framing, limits, logins and time-outs of connections, and knows no request but by its schema.
``node/`` puts it together. Start reading at ``server.py``.
"""
