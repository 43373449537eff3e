"""The workloads ``groups`` and ``static-groups``: consumer groups of both protocols whose members
come, go, stand still and die. Start reading at ``judge.py``, which says what a group promises."""
