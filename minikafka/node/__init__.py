"""One broker, put together: the parts of every floor, started, connected and stopped.

The command line, the simulator and ``minikafka.testing`` create a ``BrokerNode``. Start reading at
``broker.py``.
"""
