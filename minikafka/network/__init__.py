"""TCP connections of a broker: listeners with ordered replies, outgoing channels, the HTTP server.

Owns framing, limits and time-outs of connections, and knows no request but by its schema. Used by
``broker/``, ``controller/``, ``client/`` and ``node/``. Start reading at ``server.py`` for accepted
connections and at ``channel.py`` for outgoing ones.
"""
