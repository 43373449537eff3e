"""SASL: the exchange of each mechanism, and the login that carries it over a Kafka connection.

Bytes in, bytes and an outcome out: nothing here reads a clock, a socket or random numbers. A
broker drives one ``server_login.ServerLogin`` for each connection of a SASL listener. Clients, and
brokers that connect to others, drive ``client_login.ClientLogin``. Start reading at
``exchange.py``.
"""
