"""ApiVersions (key 18): what this broker serves."""

from __future__ import annotations

import re

from minikafka.broker.context import Reply, RequestContext
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

FIRST_VERSION_WITH_SOFTWARE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    """``served``: one row per API, in order of key. It may be filled after this."""

    def __init__(self, served: list[ApiVersion]) -> None:
        self._served = served

    def __call__(self, context: RequestContext, request: ApiVersionsRequest, reply: Reply) -> None:
        if context.version >= FIRST_VERSION_WITH_SOFTWARE and not _names_its_software(request):
            reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        else:
            reply(ApiVersionsResponse(api_keys=self._served))


def _names_its_software(request: ApiVersionsRequest) -> bool:
    """KIP-511: both are there, and of a form that is safe in metrics and logs."""
    return bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )
