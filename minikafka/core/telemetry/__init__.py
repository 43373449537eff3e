"""Client metrics (KIP-714): which metrics a client pushes, and their last values.

``subscriptions`` parses client metrics resources, ``instances`` accepts or refuses the requests of
a client, ``otlp`` decodes a push, and ``received`` keeps the last values. The shell that calls them
is ``server/broker/client_telemetry``. Start with ``instances``.
"""
