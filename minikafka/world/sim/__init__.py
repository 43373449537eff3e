"""The ports in simulation: a whole cluster of hosts in one process, on one loop, under one seed.

Tests and ``simulator/`` create a ``SimWorld``; each of its hosts gives a node the ports of
``kernel/ports.py``. Start reading at ``world.py``, then ``loop.py``, ``links.py`` and ``disk.py``.
"""
