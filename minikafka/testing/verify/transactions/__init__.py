"""The workload ``transactions``: transactional producers, their zombies, and readers of two levels.

``history`` keeps what each client observed, ``judge`` is a pure function of it, ``cycles`` finds
transactions that depend on each other, and ``load`` runs the clients. Only ``load`` speaks to a
cluster. Start reading at ``judge.py``, whose text says what Kafka promises and what it does not.
"""
