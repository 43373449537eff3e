"""Decisions about client quotas and SCRAM credentials: validation, filters and stored forms.

Called by the handlers in ``broker/handlers/security``. Start with ``client_quotas``.
"""
