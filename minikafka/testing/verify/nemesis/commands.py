"""The place of a nemesis that is known to its user alone: a shell command begins each fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from minikafka.core.client.cluster_view import Node
from minikafka.testing.verify.nemesis.places import Act, BrokerActs, BrokerPlace
from minikafka.testing.verify.nemesis.plan import ZOOKEEPER, FaultKind

NO_COMMAND: Final = "--nemesis-command names no command for it"

Shell: TypeAlias = Callable[[str], Awaitable[object]]  # runs a command; raises OSError


class CommandPlace(BrokerPlace):
    """Faults by commands of the user. Each runs once for each victim, with ``{broker}``, ``{host}``
    and ``{port}`` replaced. A fault whose kind is not among ``ends`` ends by itself.
    """

    def __init__(
        self, begins: Mapping[FaultKind, str], ends: Mapping[FaultKind, str], shell: Shell
    ) -> None:
        super().__init__(dict.fromkeys(FaultKind, NO_COMMAND))
        self._shell = shell
        self._nodes: Mapping[int, Node] = {}
        for kind, command in begins.items():
            self.acts[kind] = BrokerActs(self._act(command), self._act(ends.get(kind, "")))

    async def check(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self.brokers = sorted(nodes)

    def _act(self, command: str) -> Act:
        return partial(self._run, command)

    async def _run(self, command: str, victim: int) -> None:
        if command and victim != ZOOKEEPER:
            command = filled_in(command, victim, self._nodes[victim])
        if command:
            await self._shell(command)


def filled_in(command: str, broker: int, node: Node) -> str:
    """Replace what stands for a broker. Other braces are the shell's."""
    for name, value in (("broker", broker), ("host", node.host), ("port", node.port)):
        command = command.replace(f"{{{name}}}", str(value))
    return command
