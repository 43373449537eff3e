"""The wire rules that clients of Kafka rely on, as checks of any Kafka-compatible cluster.

``groups`` has a file of checks for each subject; a check is a function of a ``Subject``
(``subject.py``), which sends raw requests over TCP. ``run.py`` runs checks and ``report.py`` shows
the results. Nothing here imports a broker. Start reading at ``check.py``.
"""
