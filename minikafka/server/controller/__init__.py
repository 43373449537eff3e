"""The controller of a cluster: elected through ZooKeeper, it decides leaders and assignments.

``node/`` creates one ``KafkaController`` for each broker; one of them is active. ``broker/`` calls
it through small protocols, and brokers receive its requests over the network. Start reading at
``event_manager.py`` (the rules), then ``kafka_controller.py``, ``failover.py``,
``state_machines.py``.

Brokers and the controller speak by requests of the protocol alone, also within one process: the
controller sends LeaderAndIsr to its own broker through a connection like any other.
``core/controller/states`` has the invariants of every state that a controller writes.
"""
