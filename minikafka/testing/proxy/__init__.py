"""A proxy in front of any Kafka, which puts faults into the requests of its clients.

Start reading in ``fault_proxy``. ``messages`` is pure: where addresses of brokers stand, and which
versions pass. ``brokers`` knows the brokers and has a listener for each of them; ``connection``
passes the requests and responses of one client, on a connection to the broker that it means.

Frames pass as they are. Only responses that name addresses of brokers or versions of APIs, and
requests that are struck, are decoded and encoded again. What our codec does not know does not pass,
so that no client learns an address behind the proxy.
"""
