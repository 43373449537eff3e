"""The process of `minikafka mcp`, for tests: by the SDK's client, and by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent

import minikafka

ROOT = Path(minikafka.__file__).parents[1]
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def words(bootstrap: str, *more: str) -> list[str]:
    return ["-m", "minikafka.cli.main", "mcp", "--bootstrap-server", bootstrap, *more]


@asynccontextmanager
async def mcp_client(bootstrap: str, *more: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Start the process and connect the SDK's client to it."""
    parameters = StdioServerParameters(
        command=sys.executable, args=words(bootstrap, *more), env=ENVIRONMENT
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """Call a tool that succeeds, and return its reply."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    return json.loads(content.text)


async def failure(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool that fails, and return the reason."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert result.is_error, content.text
    return content.text


class McpProcess:
    """The process, by lines of JSON: for what a well-behaved client does not do."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout

    def send(self, *messages: Any) -> Self:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.stdin.write(line + b"\n")
        self.stdin.flush()
        return self

    def receive(self) -> Any:
        """Return the next message, which is a line of JSON, or None at the end."""
        line = self.stdout.readline()
        return json.loads(line) if line else None

    def begin(self) -> Self:
        self.send(INITIALIZE)
        assert self.receive()["result"]["serverInfo"]["name"] == "minikafka"
        return self.send(INITIALIZED)

    def call(self, number: int, name: str, **arguments: Any) -> Self:
        params = {"name": name, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return self.send(request)

    def children(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))


@contextmanager
def mcp_process(bootstrap: str, *more: str) -> Iterator[McpProcess]:
    with subprocess.Popen(
        [sys.executable, *words(bootstrap, *more)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
    ) as process:
        try:
            yield McpProcess(process)
        finally:
            process.kill()
