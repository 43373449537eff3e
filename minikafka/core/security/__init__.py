"""Decisions about client quotas, SCRAM credentials and logins.

Called by the handlers in ``broker/apis/security``. ``sasl`` holds the mechanisms and logins of
SASL. Start reading at ``client_quotas.py``.
"""
