"""The nemesis of a verification: faults of a cluster from a seed, one after another, and their end.

``plan`` decides which fault meets whom and for how long; ``places`` says what a place must offer,
and ``up``, ``compose`` and ``commands`` are places: the processes of `minikafka up`, containers,
commands of the user. ``placement`` moves replicas and leaders by requests, in any Kafka. ``health``
says when a cluster is whole again. Start reading at ``nemesis``.
"""
