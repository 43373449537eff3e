"""The workload ``share-groups``: members of a share group (KIP-932) that accept, release and reject
records, stand still and die. Start reading at ``judge.py``, which says what a share group
promises."""
