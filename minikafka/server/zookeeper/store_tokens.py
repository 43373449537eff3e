"""Znodes of delegation tokens: reads, conditional writes, change notifications."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    SetOp,
    Watcher,
    ZnodeStat,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode, Requests, raise_error
from minikafka.server.zookeeper.znodes.delegation_tokens import (
    decode_token,
    decode_token_notice,
    encode_token,
    token_path,
)

NO_ZNODE = -1


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token, and the version of its znode."""

    token: DelegationToken
    version: int


@dataclass(frozen=True, slots=True)
class TokenNotice:
    """A change notification, by its path. ``token_id`` is None if it cannot be decoded."""

    name: str
    token_id: str | None
    created_ms: int


class ZkTokenStore:
    """Reads and writes of delegation tokens. Any broker writes them; the version of a token's znode
    decides between two that write at the same time. Each write notifies all brokers, in the same
    multi."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def create_token_paths(self) -> None:
        await self._requests.create_if_missing(paths.TOKEN_CHANGES)
        await self._requests.create_if_missing(paths.DELEGATION_TOKENS)

    async def delegation_token_ids(self) -> list[str]:
        return await self._requests.children(paths.DELEGATION_TOKENS)

    async def delegation_tokens(self, token_ids: Sequence[str]) -> list[StoredToken | None]:
        """Return tokens in order; None for one that does not exist, or that cannot be decoded,
        which is logged."""
        found: list[StoredToken | None] = []
        async for path, node in self._requests.each(list(map(token_path, token_ids)), str):
            if node is None:
                found.append(None)
                continue
            try:
                token = decode_token(path, node[0])
            except MalformedZnode as error:
                event_log("delegation-tokens").error("token_not_read", error=str(error))
                found.append(None)
            else:
                found.append(StoredToken(token, node[1].version))
        return found

    async def write_delegation_token(self, token: DelegationToken, version: int) -> StoredToken:
        """Write a token over that of ``version``; NO_ZNODE creates it. Raises BadVersion."""
        path, data = token_path(token.token_id), encode_token(token)
        op: CoordinationOp = SetOp(path, data, version)
        if version == NO_ZNODE:
            op = CreateOp(path, data)
        written = await self._change(op, token.token_id)
        return StoredToken(token, written.version if isinstance(written, ZnodeStat) else 0)

    async def delete_delegation_token(self, token_id: str, version: int) -> None:
        """Delete the token of ``version``. Raises BadVersion."""
        await self._change(DeleteOp(token_path(token_id), version), token_id)

    async def _change(self, op: CoordinationOp, token_id: str) -> object:
        notice = CreateOp(paths.TOKEN_CHANGE_PREFIX, token_id.encode(), sequential=True)
        outcome = await self._requests.multi([op, notice])
        if isinstance(outcome.error, NoNode) and isinstance(op, CreateOp):
            await self.create_token_paths()  # somebody has deleted them
            outcome = await self._requests.multi([op, notice])
        if isinstance(outcome.error, NodeExists | NoNode):
            raise BadVersion(op.path)
        raise_error(outcome.results)
        return outcome.results[0]

    async def token_changes(self, watcher: Watcher | None = None) -> list[str]:
        """Return the paths of the change notifications in order."""
        names = await self._requests.children(paths.TOKEN_CHANGES, watcher)
        return [f"{paths.TOKEN_CHANGES}/{name}" for name in names]

    async def token_change_notices(self, names: Sequence[str]) -> list[TokenNotice]:
        """Read these change notifications, in order; deleted ones are left out."""
        notices = []
        async for name, node in self._requests.each(names, str):
            if node is not None:
                notices.append(TokenNotice(name, _noticed(name, node[0]), node[1].ctime_ms))
        return notices

    async def delete_token_changes(self, names: Sequence[str]) -> None:
        """Delete old change notifications. Every broker does so, and some may be gone already."""
        await self._requests.delete_existing(names)


def _noticed(path: str, data: bytes) -> str | None:
    try:
        return decode_token_notice(path, data)
    except MalformedZnode as error:
        event_log("delegation-tokens").error("token_notice_not_read", error=str(error))
        return None
