"""Requests that brokers send each other: orders of the controller, and requests to it."""
