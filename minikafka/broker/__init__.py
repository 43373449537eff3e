"""One broker: it serves requests, hosts replicas, copies from leaders and keeps its metadata.

The node package builds a broker out of these rooms and is their only caller. Start reading at
``requests/apis.py``, where a frame becomes a call of a handler, then ``requests/produce.py`` and
``replication/replica_manager.py``. Waiting requests live in ``purgatories.py``.
"""
