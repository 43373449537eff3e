"""The controller of a cluster: elected through ZooKeeper, it decides leaders and assignments.

``node/`` creates one ``KafkaController`` for each broker; one of them is active. ``broker/`` calls
it through small protocols, and brokers receive its requests over the network. Start reading at
``event_manager.py`` (the rules), then ``kafka_controller.py``, ``failover.py``,
``state_machines.py``.
"""
