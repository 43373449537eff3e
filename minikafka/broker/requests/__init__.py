"""Requests of clients, brokers and the controller: from a frame to a handler and back.

``apis.py`` routes by API key; start reading there. The other files hold the handlers, by subject. A
handler checks the request, calls replication, fetch, admin or a coordinator, and builds the
response. Only the node makes handlers.
"""
