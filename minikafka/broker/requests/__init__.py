"""Requests of clients, brokers and the controller: from a frame to a handler and back.

``apis.py`` routes by API key; the other files hold the handlers, by subject. A handler checks the
request, calls replication, admin or a coordinator, and builds the response.
"""
