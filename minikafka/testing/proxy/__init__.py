"""A proxy in front of any Kafka, which puts faults into the requests of its clients.

Start reading in ``fault_proxy``. ``messages`` is pure: where addresses of brokers stand, and which
versions pass. ``brokers`` knows the brokers and has a listener for each of them; ``connection``
passes the requests and responses of one client, on a connection to the broker that it means.
"""
