"""Columns of Avro, Protobuf and JSON in the wire format of schema registries.

``from_registry`` and ``to_registry`` are for queries; start reading at ``functions``. A process of
Spark imports what the formats need only when a query uses them."""

from minikafka.kernel.extras import imports_of

with imports_of("spark", "minikafka.spark.formats"):
    from minikafka.spark.formats.functions import from_registry, to_registry
    from minikafka.spark.formats.registry_access import FormatError, RegistryAccess

__all__ = ["FormatError", "RegistryAccess", "from_registry", "to_registry"]
