"""One broker: it serves requests, hosts replicas, fetches from leaders and caches cluster metadata.

The node package builds a broker out of these rooms and is their only caller. Requests come in at
``apis/pipeline.py``; read on with ``apis/records/produce.py`` and
``replication/record_appends.py``. Requests that have to wait are parked in ``purgatories.py``.
``ports.py`` is what handlers call in the controller and the coordinators, which are siblings.
"""
