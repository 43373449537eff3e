"""The group coordinator and the transaction coordinator of a broker.

``GroupCoordinator`` and ``TransactionCoordinator`` implement their APIs for the request handlers;
both are shards (``minikafka.core``) on the one ``CoordinatorRuntime``, which loads a shard when
this broker becomes leader of its partition, appends its records and settles them. The node
constructs them. Start with ``runtime``, then ``group_coordinator`` or ``transaction_coordinator``.
"""
