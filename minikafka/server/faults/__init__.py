"""Faults of requests, carried out: in a broker inside a test's process, and in the proxy.

``core/faults`` decides; ``injected`` does it to one request. ``request_faults`` has the keywords
that tests give; ``testing/fault_documents`` has the same as JSON, ``testing/fault_control`` over
HTTP. Start reading at ``injected``.
"""
