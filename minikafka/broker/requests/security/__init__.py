"""Handlers of the security APIs.

``refusals.py`` responds as Kafka's broker does without an authorizer, a SASL listener or a
delegation token secret, none of which can be configured here yet. Client quotas and SCRAM
credentials are stored in ZooKeeper and described, without further effect.
"""
