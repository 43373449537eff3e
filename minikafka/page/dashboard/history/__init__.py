"""The last day of a cluster: rates, lag, sizes and requests, in a file of bounded size.

``sampler`` reads the cluster every ten seconds, ``ring`` keeps what it has read, and ``store`` puts
it into a file. ``end_times`` turns lag in records into lag in time. Routes show both; only the
page's process uses this room. Start reading at ``sampler``.
"""
