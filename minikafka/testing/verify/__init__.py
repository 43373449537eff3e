"""A history checker for clusters: it works with them as clients do, and reports broken promises.

``run`` plays workloads side by side (``workload`` says what each has: a load, a final reading, a
judge). Each keeps what its clients observed as a history; its judge, a function of the history,
names what was lost, moved, doubled, reordered or read too early. Nothing here imports a broker, so
any Kafka-compatible cluster can be verified. The verb ``verify`` and the failure tests call it.
Start reading at ``run.py``.
"""
