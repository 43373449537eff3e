"""The standing attacker: every API of a live cluster under fire, with a victim beside it.

``python -m tests.support.attack MINUTES`` is in ``__main__``, and ``run`` has its steps.
``frames`` turns a seed into what one hostile connection sends, ``attacker`` sends it, ``victim``
is the client that must not notice, and ``judge`` decides whether the cluster stood it.

A plain client of a cluster without ACLs may rightfully destroy much: it may delete the victim's
topic, reset its group or lower its quota. Therefore the attacker names only topics, groups, users
and transactional ids of its own list (``frames.NAMES``), and no broker's configuration.
It also plays no controller in office: a LeaderAndIsr with the epoch of 2^31-1 from anyone who can
connect deposes the real controller, in Kafka as here. Requests of controllers and brokers carry
the epochs and ids of fenced ones, and are not mutated, because that could change an epoch.
"""
