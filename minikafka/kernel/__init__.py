"""What every floor needs: identifiers, errors, ports, configuration keys, the event log, metrics.

It imports no other package of minikafka. Start reading at ``ports.py``, the interfaces between the
broker and its world.
"""
