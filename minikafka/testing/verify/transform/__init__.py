"""The workload ``consume-transform-produce``: each input has exactly one output (KIP-447).

Its inputs are those of ``append``, and its outputs are records of ``transactions``; their judges
judge both, and ``judge`` what is between them.
"""
