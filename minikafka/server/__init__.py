"""The broker: everything that one ``BrokerNode`` runs.

``node`` puts a broker together and is its front door; ``listeners`` accepts connections, ``broker``
serves requests, ``controller`` leads the cluster, ``coordinator`` keeps groups and transactions,
``storage`` the logs, ``zookeeper`` the znodes, and ``faults`` strikes at requests of tests. Start
reading at ``node/broker.py``, or with one request at ``broker/apis/pipeline.py``.
"""
