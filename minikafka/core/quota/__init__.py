"""Client quotas: measured rates, the limits of users and clients, and how long to throttle.

Everything here is arithmetic on ``now_ms``. ``broker/quotas`` records requests, and throttles their
connections; ``listeners/connection_quotas`` limits the rate of new connections. Start reading at
``client_quota.py``. How quotas are stored in ZooKeeper: ``core/security/client_quotas``.
"""
