"""Outgoing connections: channels to brokers, TLS, logins, and the HTTP of token endpoints.

A login or TLS is a ``Network`` wrapped around another, so that a channel need not know of it. Used
by the server and by all clients. Start reading at ``channel.py``.
"""
