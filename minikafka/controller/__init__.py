"""The controller of a cluster: elected through ZooKeeper, it decides leaders and assignments.

The node creates one ``KafkaController`` for each broker; one of them is active. Start reading at
``kafka_controller.py`` (the event loop), then ``failover.py`` and ``state_machines.py``.
"""
