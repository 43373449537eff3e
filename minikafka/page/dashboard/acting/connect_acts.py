"""The acts on Kafka Connect, as requests to its REST API.

No verb of minikafka's does them: the page sends the request itself, and shows the command line of
curl that sends the same. The verb of such an act is the request's method.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from minikafka.client.kafka_connect import KafkaConnect
from minikafka.client.rest import RestAddress, RestError, quoted
from minikafka.kernel.ports import Network
from minikafka.page.dashboard.acting.act_fields import ActError, ActField, checked, flag, number
from minikafka.page.dashboard.acting.acts import Act
from minikafka.page.dashboard.acting.running import Finished

_CONNECTOR: Final = ActField("connector", "name of the connector", required=True)
_RESTART: Final = (
    _CONNECTOR,
    flag("include_tasks", "restart its tasks, too"),
    flag("only_failed", "restart only what has failed"),
)
_TASK: Final = (_CONNECTOR, number("task", "number of the task", True, most=2**31 - 1))
CONNECT_ACTS: Final[Mapping[str, Act]] = MappingProxyType(
    {
        act.name: act
        for act in (
            Act("connect-restart", "Restart a connector", ("POST",), _RESTART),
            Act("connect-restart-task", "Restart a task of a connector", ("POST",), _TASK),
            Act("connect-pause", "Pause a connector and its tasks", ("PUT",), (_CONNECTOR,)),
            Act("connect-resume", "Resume a connector and its tasks", ("PUT",), (_CONNECTOR,)),
            Act("connect-stop", "Stop a connector: shut down its tasks", ("PUT",), (_CONNECTOR,)),
        )
    }
)


class RestRequest(NamedTuple):
    """A request without a body to Kafka Connect. ``path`` is below its address."""

    method: str
    path: str


def connect_request(name: str, arguments: Mapping[str, Any], dry_run: bool) -> RestRequest:
    """Return the request of an act. Raises ActError for wrong arguments."""
    act = CONNECT_ACTS[name]
    if dry_run:
        raise ActError(f"{name} has no dry run")
    values = checked(act.fields, arguments)
    path = f"/connectors/{quoted(values['connector'])}"
    if "task" in values:
        path += f"/tasks/{values['task']}"
    path += f"/{name.split('-')[1]}"
    parameters = {"includeTasks": "include_tasks", "onlyFailed": "only_failed"}
    query = {shown: "true" for shown, given in parameters.items() if given in values}
    return RestRequest(act.verb[0], path + (f"?{urlencode(query)}" if query else ""))


def shown_request(request: RestRequest, address: RestAddress) -> str:
    """Return a line for a shell. With a login it has only the name: curl asks for the password."""
    user = () if address.login is None else ("--user", address.login.partition(":")[0])
    words = ("curl", "-X", request.method, *user, f"{address.url}{request.path}")
    return shlex.join(words)


async def carry_out(network: Network, address: RestAddress, request: RestRequest) -> Finished:
    """Send a request, and return what Connect responds."""
    try:
        async with KafkaConnect(network, address) as connect:
            found = await connect.change(*request)
    except RestError as error:
        return Finished(1, "", f"Kafka Connect refused it: {error}.\n")
    except ConnectionError as error:
        return Finished(1, "", f"It is unknown whether it was done: {error}.\n")
    return Finished(0, "" if found is None else json.dumps(found), "")


def connect_act_facts(address: RestAddress) -> list[dict[str, Any]]:
    """Return the acts as the page gets them."""
    return [
        {**act.facts(""), "command": f"curl -X {act.verb[0]} {address.url}/connectors/..."}
        for act in CONNECT_ACTS.values()
    ]
