"""Handlers of the security APIs, one module per subject.

No authorizer, SASL listener or delegation token secret can be configured yet: those handlers
refuse as Kafka's broker does without them. Client quotas and SCRAM credentials are stored and
described.
"""
