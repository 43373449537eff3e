"""Kafka's wire format: requests, responses and records as bytes and as dataclasses. No I/O.

Every floor above may use it. Start reading at ``schema.py`` (a message class is its own schema),
then ``codec.py``; ``records/`` holds record batches.
"""
