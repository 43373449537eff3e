"""The page's views of a cluster's security: ACLs, why one decides, users, tokens and quotas.

Start reading in ``security_api.py``. All of it goes over the protocol, so any Kafka shows it.
"""
