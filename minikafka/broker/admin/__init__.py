"""Topics, partitions, configurations and elections as administrators change them.

Handlers call this room. It checks a request, writes to ZooKeeper or asks the controller, and waits
until the change is visible here. Start reading at ``topics.py``.
"""
