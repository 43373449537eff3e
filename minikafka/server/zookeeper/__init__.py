"""Kafka's data in ZooKeeper, over the Coordination port: sessions, typed reads and writes, znodes.

``node/`` opens the ``ZkSession``; ``broker/`` and ``controller/`` use its ``ZkStore``. Start
reading at ``store.py``, and at ``requests.py`` for lost connections and fencing.
"""
