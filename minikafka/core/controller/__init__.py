"""The controller's decisions: state machines, elections, placement, reassignment, topic deletion.

Pure functions of the ``ControllerContext``, called by ``controller/`` (and ``placement`` also by
``broker/admin`` and the command line). Start reading at ``states.py`` and ``partition_machine.py``.
"""
