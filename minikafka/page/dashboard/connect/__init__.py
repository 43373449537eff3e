"""Kafka Connect on the page: what routes read of it.

``connect_api`` has the routes. The acts are in ``acting.connect_acts``.
"""
