"""The group, transaction and share coordinators of a broker.

``GroupCoordinator``, ``TransactionCoordinator`` and ``ShareCoordinator`` implement their APIs for
the request handlers; all are shards (``minikafka.core``) on the one ``CoordinatorRuntime``, which
loads a shard when this broker becomes leader of its partition, appends its records and settles
them. The node constructs them. Start with ``runtime``, then with one of the three.
``share_persister`` reaches the share coordinators of all brokers.

Only ``replay`` applies records to a shard: after an append, and when ``loader`` replays the log of
a partition that this broker has begun to lead. So what a client has been promised is always in the
log: assignments are sent to the members, and a commit is acknowledged and can be fetched, when
their records are below the high watermark. When a coordinator resigns, parked requests fail with
NOT_COORDINATOR, and the members join again at the next one. Groups whose assignments the
coordinator computes are the exception: ``minikafka.core.group.modern_groups`` applies a decision
at once, and undoes it if the append fails.

Some changes need other brokers. ``share_group_offsets`` changes the start offsets of a share group
by two records: one announces the change, the other one completes it after the share coordinators
have carried it out. The internal topics of streams groups are created by
``minikafka.server.broker.admin.streams_topics``.

The producer gets the response to EndTxn when the decision is replicated. Markers follow until each
is written, fenced by the coordinator epoch; then the shard appends that the transaction is
complete. A coordinator that finds a decision in the log sends its markers once everything that it
has loaded is replicated. A time-out, or a new producer of the id, aborts in the next producer
epoch.
"""
