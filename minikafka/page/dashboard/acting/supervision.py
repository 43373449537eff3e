"""The link from the page to the supervisor that owns the broker processes.

`minikafka up` starts the page as its child and keeps one end of a socket pair. Each line is JSON:

    up -> page  {"supervised": ["start", "stop", ...], "brokers": [1, 2], "commands": {"stop": ..},
                 "paused": [], "isolated": []}, again after an act that changes it
    page -> up  {"page": "http://127.0.0.1:8080/?token=..."}
    page -> up  {"id": 1, "do": "kill", "broker": 2}
    up -> page  {"id": 1, "ok": true}, or {"id": 1, "error": "broker 2 does not run"}

The end of the link is the end of the page, so a page does not outlive a supervisor that was killed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, cast

from minikafka.kernel.lazy_dataclass import dataclass

# What may be done to a broker's process, as a title for people, and whether it is dangerous.
VERBS: Final[Mapping[str, tuple[str, bool]]] = MappingProxyType(
    {
        "start": ("Start the broker", False),
        "stop": ("Stop the broker by controlled shutdown (SIGTERM)", True),
        "kill": ("Kill the broker (SIGKILL)", True),
        "pause": ("Pause the broker (SIGSTOP)", True),
        "resume": ("Resume the broker (SIGCONT)", False),
        "isolate": ("Cut the broker off from all others, clients and ZooKeeper", True),
        "rejoin": ("Undo the isolation of the broker", False),
    }
)
MAX_LINE: Final = 64 * 1024
TIMEOUT_S: Final = 60.0  # a broker in a process with others starts within the act


class SupervisorError(Exception):
    """What the supervisor did not do, and why; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the supervisor can do, to which brokers, and the command line that does the same.

    ``paused`` and ``isolated``: brokers that can be resumed, or join the others again.
    """

    supervised: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    paused: tuple[int, ...] = ()
    isolated: tuple[int, ...] = ()

    def command(self, verb: str, broker: int) -> str:
        return self.commands.get(verb, "").replace("{broker}", str(broker))


def line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def greeting_line(greeting: Greeting) -> bytes:
    return line(
        {
            "supervised": list(greeting.supervised),
            "brokers": list(greeting.brokers),
            "commands": dict(greeting.commands),
            "paused": list(greeting.paused),
            "isolated": list(greeting.isolated),
        }
    )


def parse_line(text: bytes) -> dict[str, Any]:
    """Return the message of a line. Raises ValueError."""
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


class SupervisorLink(asyncio.Protocol):
    """The page's end. ``greeted`` is called with what the supervisor can do, ``lost`` when it has
    gone."""

    def __init__(
        self, address: str, greeted: Callable[[Greeting], None], lost: Callable[[], None]
    ) -> None:
        self.greeting = Greeting()
        self._address = address
        self._greeted = greeted
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._ids = itertools.count(1)
        self._begun = b""

    async def connect(self, fd: int) -> None:
        """Use the file descriptor of the socket, and say where the page is."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=socket.socket(fileno=fd))

    async def act(self, verb: str, broker: int) -> None:
        """Return when the supervisor has done it. Raises SupervisorError."""
        if self._transport is None:
            raise SupervisorError("the supervisor has gone")
        number = next(self._ids)
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        self._transport.write(line({"id": number, "do": verb, "broker": broker}))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await reply
        except TimeoutError:
            raise SupervisorError(f"no response of the supervisor in {TIMEOUT_S:g} s") from None
        finally:
            del self._waiting[number]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no base class
        self._transport.write(line({"page": self._address}))

    def data_received(self, data: bytes) -> None:
        *whole, self._begun = (self._begun + data).split(b"\n")
        for text in whole:
            self._receive(parse_line(text))

    def _receive(self, message: Mapping[str, Any]) -> None:
        if "supervised" in message:
            self.greeting = Greeting(
                tuple(verb for verb in message["supervised"] if verb in VERBS),
                tuple(message["brokers"]),
                message.get("commands", {}),
                tuple(message.get("paused", ())),
                tuple(message.get("isolated", ())),
            )
            self._greeted(self.greeting)
            return
        reply = self._waiting.get(message["id"])
        if reply is None or reply.done():
            return  # the caller did not wait
        if "error" in message:
            reply.set_exception(SupervisorError(message["error"]))
        else:
            reply.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(SupervisorError("the supervisor has gone"))
        self.greeting = Greeting()
        self._lost()


def supervised_acts(greeting: Greeting) -> Sequence[dict[str, Any]]:
    """Return the acts of the supervisor as the page gets them."""
    broker = {
        "name": "broker",
        "type": "broker",
        "required": True,
        "choices": [str(number) for number in greeting.brokers],
        "several": False,
        "help": "id of the broker",
    }
    return [
        {
            "name": f"broker-{verb}",
            "title": title,
            "fields": [broker],
            "dry_run": False,
            "dry_run_help": "",
            "dangerous": dangerous,
            "changes": True,
            "command": greeting.commands.get(verb, ""),
        }
        for verb, (title, dangerous) in VERBS.items()
        if verb in greeting.supervised
    ]
