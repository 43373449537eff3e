"""The routes of acts: what can be done, and doing it by a command or by the supervisor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.page.dashboard.access.roles import needed_for_act
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import ACTS, Act, command, shown_command
from minikafka.page.dashboard.acting.connect_acts import (
    CONNECT_ACTS,
    carry_out,
    connect_act_facts,
    connect_request,
    shown_request,
)
from minikafka.page.dashboard.acting.running import Finished, parsed_output, run_command
from minikafka.page.dashboard.acting.runs import ActRun, ActRuns
from minikafka.page.dashboard.acting.schema_acts import (
    SCHEMA_ACTS,
    schema_act_facts,
    schema_command,
)
from minikafka.page.dashboard.acting.supervision import (
    Greeting,
    SupervisorError,
    SupervisorLink,
    supervised_acts,
)
from minikafka.page.dashboard.context import HttpError, PageContext, identity_of, peer_of
from minikafka.page.dashboard.guards import role_refusal

MAX_BODY: Final = 256 * 1024
MAX_COMMANDS: Final = 4  # at a time; each is a process
PROPOSAL: Final = "Proposed partition reassignment configuration\n"
SUPERVISED: Final = "broker-"
_NO_STORE: Final = {"Cache-Control": "no-store"}


def routes(context: PageContext) -> list[BaseRoute]:
    acts = ActsApi(context, _supervisor(context))
    return [
        Route("/api/acts", acts.list_acts, methods=["GET"]),
        Route("/api/do/{name}", acts.do, methods=["POST"]),
        Route("/api/runs", acts.list_runs, methods=["GET"]),
        Route("/api/runs/{id:int}", acts.show_run, methods=["GET"]),
    ]


def _supervisor(context: PageContext) -> SupervisorLink | None:
    if context.supervisor_fd is None:
        return None

    def greeted(greeting: Greeting) -> None:
        shown = Greeting() if context.read_only else greeting
        context.broadcast.set_supervised(
            shown.supervised, shown.brokers, shown.paused, shown.isolated
        )

    def lost() -> None:
        greeted(Greeting())
        context.stop()

    link = SupervisorLink(context.guard.address, greeted, lost)
    context.tasks.create_task(link.connect(context.supervisor_fd), name="supervisor")
    return link


async def body(request: Request, most_bytes: int = MAX_BODY) -> dict[str, Any]:
    """Return the JSON object of a request. Raises HttpError.

    The content type is checked since a form of another site cannot send this one.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HttpError(415, "The request needs the content type application/json.")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most_bytes:
            raise HttpError(413, f"The request is larger than {most_bytes:,} bytes.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The request is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise HttpError(400, "The request is not a JSON object.")
    return found


class PreparedAct(NamedTuple):
    """An act with its arguments. ``logged`` is its command as the audit log has it, without the
    record that an act writes. ``run`` is called with where its output shall appear meanwhile."""

    command: str
    logged: str
    run: Callable[[bytearray], Awaitable[Finished]]


class ActsApi:
    """Does one act for each request; a few commands run at a time, others wait."""

    def __init__(self, context: PageContext, link: SupervisorLink | None) -> None:
        self._context = context
        self._link = link
        self._slots = asyncio.Semaphore(MAX_COMMANDS)
        self._runs = ActRuns(context.world.clock, context.spawn)

    async def list_acts(self, request: Request) -> Response:
        """List the acts that change something; with ``?all=1`` also verbs that only read."""
        if self._context.read_only or not self._context.bootstrap:
            return JSONResponse([], headers=_NO_STORE)
        everything = request.query_params.get("all") == "1"
        rows = [
            act.facts(self._context.bootstrap) for act in ACTS.values() if act.changes or everything
        ]
        if self._context.registry is not None:
            rows += schema_act_facts(self._context.registry)
        if self._context.connect is not None:
            rows += connect_act_facts(self._context.connect)
        if self._link is not None:
            rows += supervised_acts(self._link.greeting)
        named = [
            {**row, "role": needed_for_act(row["name"], {"topic": "any"}, row["changes"]).label}
            for row in rows
        ]
        return JSONResponse(named, headers=_NO_STORE)

    async def do(self, request: Request) -> Response:
        """Run an act. With ``preview`` only return its command, or the problem with its fields."""
        if self._context.read_only:
            raise HttpError(403, "The page is read-only.")
        name = request.path_params["name"]
        asked = await body(request)
        unknown = sorted(set(asked) - {"arguments", "dry_run", "preview"})
        arguments = asked.get("arguments", {})
        flags = [asked.get(flag, False) for flag in ("dry_run", "preview")]
        if unknown or not isinstance(arguments, dict):
            what = unknown[0] if unknown else "arguments"
            raise HttpError(400, f"The request has a wrong field: {what}.")
        if not all(isinstance(flag, bool) for flag in flags):
            raise HttpError(400, "dry_run and preview are true or false.")
        dry_run, preview = flags
        if not preview:
            self._check_role(request, name, arguments)
        if name.startswith(SUPERVISED):
            found = await self._supervised(request, name, arguments, preview)
        else:
            found = await self._command(request, name, arguments, dry_run, preview)
        return JSONResponse(found, headers=_NO_STORE)

    def _check_role(self, request: Request, name: str, arguments: Mapping[str, Any]) -> None:
        """Raises HttpError, and AuditError."""
        identity = identity_of(request)
        changes = name not in ACTS or ACTS[name].changes
        needed = needed_for_act(name, arguments, changes)
        if identity is None or identity.role < needed:
            guard = self._context.guard
            why = guard.stranger if identity is None else role_refusal(identity, needed)
            self._context.audit.refused(identity, peer_of(request), name, why)
            raise HttpError(403, why)

    async def _supervised(
        self, request: Request, name: str, arguments: Mapping[str, Any], preview: bool
    ) -> dict[str, Any]:
        verb = name.removeprefix(SUPERVISED)
        if self._link is None or verb not in self._link.greeting.supervised:
            raise HttpError(404, f"The page cannot {verb} brokers: no supervisor offers it.")
        try:
            broker = int(arguments.get("broker", ""))
        except (TypeError, ValueError):
            raise HttpError(400, "The field broker needs the id of a broker.") from None
        if broker not in self._link.greeting.brokers:
            raise HttpError(404, f"The supervisor has no broker {broker}.")
        shown = {"command": self._link.greeting.command(verb, broker)}
        if preview:
            return shown
        about = (identity_of(request), peer_of(request), name, shown["command"])
        self._context.audit.begun(*about)
        status, errors = 0, ""
        try:
            await self._link.act(verb, broker)
        except SupervisorError as error:
            status, errors = 1, str(error)
        self._context.audit.ended(*about, status, errors)
        return {**shown, "status": status, "output": "", "errors": errors}

    async def _command(
        self,
        request: Request,
        name: str,
        arguments: Mapping[str, Any],
        dry_run: bool,
        preview: bool,
    ) -> dict[str, Any]:
        act = self._act(name)
        if act is None:
            raise HttpError(404, f"there is no act {name}.")
        try:
            found = self._prepared(act, arguments, dry_run)
        except ActError as error:
            if preview:
                return {"command": "", "problem": f"{error}."}
            raise HttpError(400, f"{error}.") from None
        shown = {"command": found.command}
        if preview:
            return shown

        async def work(run: ActRun) -> dict[str, Any]:
            run.command = shown["command"]
            async with self._slots:
                if not act.changes or dry_run:
                    finished = await found.run(run.output)
                else:
                    finished = await self._audited(request, name, found, run.output)
            return {**shown, **_result(name, finished, dry_run)}

        return await self._runs.keep(name, act.title, dry_run, work)

    def _act(self, name: str) -> Act | None:
        """Return an act that this page has."""
        if self._context.registry is not None and name in SCHEMA_ACTS:
            return SCHEMA_ACTS[name]
        if self._context.connect is not None and name in CONNECT_ACTS:
            return CONNECT_ACTS[name]
        return ACTS.get(name)

    def _prepared(self, act: Act, arguments: Mapping[str, Any], dry_run: bool) -> PreparedAct:
        """Raises ActError for wrong arguments."""
        context = self._context
        if act.name in CONNECT_ACTS:
            assert context.connect is not None
            sent = connect_request(act.name, arguments, dry_run)
            line = shown_request(sent, context.connect)
            work = partial(carry_out, context.world.network, context.connect, sent)
            return PreparedAct(line, line, lambda output: work())
        if act.name in SCHEMA_ACTS:
            assert context.registry is not None
            found = schema_command(act.name, arguments, context.registry, dry_run)
        else:
            given = (context.bootstrap, context.command_config, dry_run)
            found = command(act.name, arguments, *given)
        logged = replace(found, stdin=None) if act.name == "produce" else found
        return PreparedAct(
            shown_command(found),
            shown_command(logged),
            lambda output: run_command(found, act.timeout_s, output=output),
        )

    async def list_runs(self, request: Request) -> Response:
        """List acts that run or have run, the newest first."""
        runs = [run.facts() for run in self._runs.newest() if _may_see(request, run)]
        return JSONResponse(runs, headers=_NO_STORE)

    async def show_run(self, request: Request) -> Response:
        """Return one act with what it has printed so far."""
        run = self._runs.find(request.path_params["id"])
        if run is None or not _may_see(request, run):
            raise HttpError(404, "There is no such act, or you may not see it.")
        return JSONResponse(run.facts(with_output=True), headers=_NO_STORE)

    async def _audited(
        self, request: Request, name: str, found: PreparedAct, output: bytearray
    ) -> Finished:
        """Run an act between two lines of the audit log."""
        about = (identity_of(request), peer_of(request), name, found.logged)
        self._context.audit.begun(*about)
        try:
            finished = await found.run(output)
        except OSError as error:
            self._context.audit.ended(*about, None, str(error))
            raise
        errors = "" if finished.status == 0 else finished.errors
        self._context.audit.ended(*about, finished.status, errors)
        return finished


def _may_see(request: Request, run: ActRun) -> bool:
    """Whether a request may read what an act prints, which may be secret: only if it may do it."""
    identity = identity_of(request)
    return identity is not None and identity.role >= needed_for_act(run.name, {"topic": "any"})


def _result(name: str, finished: Finished, dry_run: bool) -> dict[str, Any]:
    result = {
        "status": finished.status,
        "output": parsed_output(finished.output, lines=name == "consume"),
        "errors": finished.errors,
    }
    if dry_run and PROPOSAL in finished.output:
        result["fill"] = {"plan": finished.output.partition(PROPOSAL)[2].strip()}
    return result
