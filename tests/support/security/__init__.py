"""Certificates and logins for tests."""
