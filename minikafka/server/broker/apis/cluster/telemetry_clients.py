"""What the two requests of client metrics say of the client that has sent them."""

from __future__ import annotations

from minikafka.core.telemetry.instances import Origin
from minikafka.core.telemetry.subscriptions import (
    CLIENT_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    SOURCE_ADDRESS,
    SOURCE_PORT,
    Attributes,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.listeners.connected_clients import UNKNOWN, UNNAMED
from minikafka.server.listeners.server_connection import ServerConnection


def origin_of(context: RequestContext) -> Origin:
    """Return where the connection comes from."""
    connection = context.connection
    port = connection.client_port if isinstance(connection, ServerConnection) else 0
    return context.client_host, port


def attributes_of(context: RequestContext) -> Attributes:
    """Return what patterns of ``match`` see. As in Kafka, a client without a client id matches no
    pattern of it, and the software of one that does not name itself is "unknown"."""
    connection = context.connection
    software = connection.software if isinstance(connection, ServerConnection) else UNNAMED
    host, port = origin_of(context)
    found = {
        SOFTWARE_NAME: software.name or UNKNOWN,
        SOFTWARE_VERSION: software.version or UNKNOWN,
        SOURCE_ADDRESS: host,
        SOURCE_PORT: str(port),
    }
    if context.header.client_id is not None:
        found[CLIENT_ID] = context.header.client_id
    return found
