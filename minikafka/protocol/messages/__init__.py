"""Kafka's messages, one file for each API: each dataclass is the schema of its bytes.

Names, order of fields and defaults are those of Kafka's message definitions. ``registry.py`` finds
a message by its key; start reading at ``produce.py``.
"""
