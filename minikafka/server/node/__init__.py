"""The composition root of one broker: it creates, connects, starts and stops the parts.

The command line, the simulator and ``minikafka.testing`` create a ``BrokerNode``. Start reading at
``broker.py``.
"""
