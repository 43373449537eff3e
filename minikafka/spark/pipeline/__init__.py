"""Spark Declarative Pipelines over topics: create, check, run, replay a pipeline, show its status.

The verb ``minikafka pipeline`` is the only caller. Start reading at ``triggered`` (one run by
``spark-pipelines``), ``continuous`` (streaming queries until a signal) or ``replay``. The modules
that the verb imports at its start (``spec``, ``engine``, ``project``, ``run_lock``, ``run_log``,
``failures``) do not import PySpark, so the verb can report that it is not installed."""
