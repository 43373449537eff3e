"""Faults of requests, carried out: in a broker inside a test's process, and in the proxy.

``core/faults`` decides; ``injected`` does it to one request. Tests add and remove faults by
way of ``testing/request_faults``.
"""
