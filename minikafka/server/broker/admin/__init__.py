"""Topics, partitions, configurations and elections as administrators change them.

Handlers call this room. It checks a request, writes to ZooKeeper or calls the controller, and waits
until the metadata cache shows the change. Start reading at ``topics.py``.
"""
