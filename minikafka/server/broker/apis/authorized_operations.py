"""What any client may do on a broker without an authorizer, as the bit fields of KIP-430."""

from __future__ import annotations

from typing import Final

from minikafka.core.security.acls import SUPPORTED_OPERATIONS, AclResourceType, bit_field

TOPIC_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.TOPIC])
CLUSTER_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.CLUSTER])
GROUP_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.GROUP])
