"""The five ports on this machine: uvloop, TCP, files, kazoo and the system's randomness.

``node/`` and ``cli/`` use it through ``world.py``. It imports the kernel only and knows nothing of
Kafka. Start reading at ``kernel/ports.py``, then at the port that interests you.
"""
