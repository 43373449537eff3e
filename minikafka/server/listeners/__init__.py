"""The accepted connections of a broker: listeners, requests, ordered replies, and HTTP.

Owns framing, limits, logins and time-outs of connections, and knows no request but by its schema.
``node/`` puts it together. Start reading at ``server.py``.

A connection of which no received byte waits has no receive buffer: those of a listener share them
(``protocol/frames.ReadBuffers``). ``flow_control`` has the reasons for which a connection is not
read, ``reply_queue`` the order of replies, and ``memory_budget`` the bound of what all clients
together make a broker hold.
"""
