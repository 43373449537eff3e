"""Client metrics (KIP-714): which metrics a client shall push, and what it has pushed.

``subscriptions`` says what a client metrics resource means, ``instances`` which request of a client
is accepted (begin there), ``otlp`` decodes a push, and ``received`` keeps the last values. The
broker's shell is ``server/broker/client_telemetry``.
"""
