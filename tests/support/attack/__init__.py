"""An attacker that sends hostile requests of every API to a live cluster, beside a victim.

``python -m tests.support.attack MINUTES`` is in ``__main__``, and ``run`` has its steps.
``frames`` generates the bytes of one hostile connection from a seed, ``attacker`` sends them,
``victim`` is a client that must not be disturbed, and ``judge`` decides whether the cluster
withstood the attack.

A plain client of a cluster without ACLs may rightfully destroy much: it may delete the victim's
topic, reset its group or lower its quota. Therefore the attacker uses only the topics, groups,
users and transactional ids in ``frames.NAMES``, and no broker's configuration.

Nor does it pose as an active controller: a LeaderAndIsr with the epoch 2^31-1 from any client that
can connect deposes the real controller, in Kafka as here. Its requests in the name of controllers
and brokers carry epochs and ids that are fenced. They are not mutated, because that could change
an epoch.
"""
