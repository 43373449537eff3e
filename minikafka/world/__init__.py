"""The implementations of the ports in ``kernel/ports.py``: the real machine and the simulated one.

Owns everything that touches the outside. A program chooses one world and passes it to the node.
Start reading at ``real/world.py`` or ``sim/world.py``.
"""
