"""Handlers of the security APIs.

ACLs, delegation tokens, client quotas and SCRAM credentials. ``refusals.py`` responds as Kafka's
broker does without an authorizer, and to SASL requests outside of a login.
"""
