"""Names of log events are ``noun_verb``: ``isr_shrunk`` for what happened, ``isr_shrinking`` for
what goes on. The facts are keys, so that a name can be searched for and counted.

The log of a component binds ``broker``, the id of the broker that writes the line. No call may
overwrite it: another broker has a key that says which one it is, such as ``target_broker``.

The names are collected from the syntax trees of the package: literals, both sides of conditional
expressions, f-strings, local variables, and arguments of functions that pass an event name on.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from tests.support.sources import PACKAGE, ROOT, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

LOG_ITSELF = PACKAGE / "kernel" / "events.py"

LEVELS = {"debug", "info", "warning", "error"}
LOGS = {"log", "_log", "events", "_events"}
# ``CoordinatorResult.event`` stores names, and CoordinatorRuntime logs them (``event.name``).
SHARD_RESULTS = {"result"}
PASSED_ON = {("minikafka/server/coordinator/runtime.py", "event.name")}

FORM = re.compile(r"[a-z]+(_[a-z]+)+")
IRREGULAR = {
    "became", "begun", "fell", "found", "left", "lost", "read", "reset", "sent", "set", "shrunk",
    "shut", "taken", "went",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef
Variables = Mapping[str, Sequence[ast.expr]]


def is_noun_verb(name: str) -> bool:
    """Whether the name is lower_snake, and a verb stands after its first word: in the past tense
    anywhere, or a present participle at the end."""
    if not FORM.fullmatch(name):
        return False
    rest = name.split("_")[1:]
    return rest[-1].endswith("ing") or any(w.endswith("ed") or w in IRREGULAR for w in rest)


def variables_of(nodes: Iterable[ast.AST]) -> Variables:
    """The expressions that are assigned to each variable."""
    found = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id].append(node.value)
    return found


def values_of(node: ast.expr, variables: Variables) -> Iterator[ast.expr]:
    """The expressions that ``node`` may stand for: sides of a condition, values of a variable."""
    if isinstance(node, ast.IfExp):
        yield from values_of(node.body, variables)
        yield from values_of(node.orelse, variables)
    elif isinstance(node, ast.Name) and node.id in variables:
        for value in variables[node.id]:
            yield from values_of(value, variables)
    else:
        yield node


def is_log_method(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr not in {*LEVELS, "event"}:
        return False
    owner = node.value
    if isinstance(owner, ast.Call):
        owner = owner.func
        return node.attr in LEVELS and ast.unparse(owner).rpartition(".")[2] in {
            "event_log",
            "bind",
        }
    last = ast.unparse(owner).rpartition(".")[2]
    return (node.attr in LEVELS and last in LOGS) or (
        node.attr == "event" and last in SHARD_RESULTS
    )


def log_calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Call, Function, Variables]]:
    """The calls of log methods, the functions that they are in, and the variables of these."""
    for function in nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = list(ast.walk(function))
            variables = variables_of(inside)
            for call in inside:
                if isinstance(call, ast.Call) and any(
                    is_log_method(method) for method in values_of(call.func, variables)
                ):
                    yield call, function, variables


def is_parameter(node: ast.expr, function: Function) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return isinstance(node, ast.Name) and node.id in {a.arg for a in arguments}


def arguments_for(
    parameter: str, function: Function, nodes: Sequence[ast.AST]
) -> Iterator[ast.expr]:
    """What the callers in the module pass for a parameter of ``function``."""
    names = [a.arg for a in function.args.args if a.arg != "self"]
    for call in nodes:
        called = isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2]
        if isinstance(call, ast.Call) and called == function.name:
            given = {k.arg: k.value for k in call.keywords} | dict(
                zip(names, call.args, strict=False)
            )
            yield given[parameter]


def event_names(nodes: Sequence[ast.AST], path: str) -> Iterator[tuple[int, str]]:
    """The lines and names of events. An expression that is no name is given as its source."""
    for call, function, variables in log_calls(nodes):
        if not call.args:
            continue
        for value in values_of(call.args[0], variables):
            passed = [value]
            if is_parameter(value, function):
                assert isinstance(value, ast.Name)
                passed = list(arguments_for(value.id, function, nodes))
            for node in passed:
                if (path, ast.unparse(node)) not in PASSED_ON:
                    yield node.lineno, name_in(node)


def name_in(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):  # a variable stands for a noun
        return "".join(
            v.value if isinstance(v, ast.Constant) and isinstance(v.value, str) else "noun"
            for v in node.values
        )
    return ast.unparse(node)


def lines_overwriting(fact: str, nodes: Iterable[ast.AST]) -> list[int]:
    """The lines of log calls that pass ``fact`` as a keyword."""
    return [
        call.lineno
        for call, _, _ in log_calls(nodes)
        if fact in {keyword.arg for keyword in call.keywords}
    ]


@pytest.fixture(scope="module")
def names() -> list[tuple[str, int, str]]:
    """The path, line and name of every event of the package."""
    return [
        (path, line, name) for path, nodes in modules() for line, name in event_names(nodes, path)
    ]


def modules() -> Iterator[tuple[str, Sequence[ast.AST]]]:
    for path in SOURCES:
        if path != LOG_ITSELF:
            yield path.relative_to(ROOT).as_posix(), nodes_of(path)


def test_events_are_named_by_a_noun_and_a_verb(names: list[tuple[str, int, str]]) -> None:
    assert [found for found in names if not is_noun_verb(found[2])] == []


def test_no_event_overwrites_the_id_of_the_broker_that_logs_it() -> None:
    found = {path: lines_overwriting("broker", nodes) for path, nodes in modules()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_overwritten_facts_are_found_and_other_keywords_are_not() -> None:
    source = """
def connect(self):
    log = event_log("controller", broker=1)
    log.info("broker_connected", broker=2)
    write = self._log.info if first else self._log.debug
    write("broker_connected", at=3, broker=2)
    event_log("node", broker=1).info("broker_connected", target_broker=2)
    self.trace.add("broker_connected", broker=2)
"""
    assert lines_overwriting("broker", ast.walk(ast.parse(source))) == [4, 6]


def test_events_are_found_however_they_are_written(names: list[tuple[str, int, str]]) -> None:
    found = {name for _, _, name in names}
    written = {
        "broker_started",  # a literal
        "isr_shrinking",  # a conditional expression
        "stray_log_renamed",  # a variable
        "partition_state_changed",  # a variable that is the log's method
        "noun_loaded",  # an f-string
        "log_reset_to_start",  # passed on by a method
        "member_left",  # in the result of a shard
        "broker_settings_malformed",  # a log without a variable
    }
    assert written <= found


def test_other_forms_are_refused() -> None:
    for name in (
        "started", "Broker 1 failed", "becoming_leader", "no_batch", "deleting_segments",
        "loop_trouble", "topicDeleted", "topic__deleted",
    ):  # fmt: skip
        assert not is_noun_verb(name), name
    for name in ("isr_shrunk", "isr_shrinking", "topic_not_created", "cleaning_aborted"):
        assert is_noun_verb(name), name
