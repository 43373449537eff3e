"""Decisions about client quotas and SCRAM credentials: validation, filters and stored forms.

Called by the handlers in ``broker/requests/security``. Start reading at ``client_quotas.py``.
"""
