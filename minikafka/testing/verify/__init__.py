"""A history checker for clusters: it writes and reads records, and reports lost or wrong ones.

``run`` creates a topic, writes with idempotent producers, reads from several sides, and in the end
reads everything. ``history`` keeps what each client observed; ``judge``, a function of the history,
names what was lost, moved, doubled, reordered or read too early. Nothing here imports a broker, so
any Kafka-compatible cluster can be verified. The verb ``verify`` and the failure tests call it.
Start reading at ``run.py``.
"""
