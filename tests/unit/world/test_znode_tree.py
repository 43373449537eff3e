"""The znode tree: what ZooKeeper's own rules ask of it, and a dumb twin for multis."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.kernel.ports import (
    BadVersion,
    CheckOp,
    CoordinationError,
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    OpResult,
    RolledBack,
    SetOp,
    WatchEvent,
    WatchKind,
)
from minikafka.world.memory.znode_tree import Author, ZnodeTree

SESSION = 7


def do(tree: ZnodeTree, op: CoordinationOp, wall_ms: int = 1000) -> OpResult:
    (result,) = tree.apply([op], Author(SESSION), wall_ms).results
    return result


def test_a_new_node_tells_its_birth() -> None:
    tree = ZnodeTree()
    assert do(tree, CreateOp("/a", b"x", ephemeral=True), wall_ms=5) == "/a"
    data, stat = tree.get("/a")
    assert data == b"x"
    assert (stat.czxid, stat.mzxid, stat.version, stat.ephemeral_owner) == (1, 1, 0, SESSION)
    assert (stat.ctime_ms, stat.mtime_ms, stat.num_children) == (5, 5, 0)


def test_a_set_moves_version_mzxid_and_mtime_only() -> None:
    tree = ZnodeTree()
    do(tree, CreateOp("/a", b""), wall_ms=5)
    do(tree, SetOp("/a", b"y"), wall_ms=9)
    stat = tree.exists("/a")
    assert stat is not None
    assert (stat.version, stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms) == (1, 1, 2, 5, 9)


def test_cversion_counts_children_made_and_deleted_and_sequence_those_made() -> None:
    tree = ZnodeTree()
    for name in ("/a", "/b"):
        do(tree, CreateOp(name, b""))
    do(tree, DeleteOp("/a"))
    root = tree.exists("/")
    assert root is not None
    assert (root.cversion, root.num_children, root.version) == (3, 1, 0)
    assert do(tree, CreateOp("/n_", b"", sequential=True)) == "/n_0000000002"


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (CreateOp("/a", b""), NodeExists),
        (CreateOp("/x/y", b""), NoNode),
        (CreateOp("/", b""), NodeExists),
        (CreateOp("/e/y", b""), CoordinationError),
        (CreateOp("a", b""), CoordinationError),
        (CreateOp("/a/", b""), CoordinationError),
        (SetOp("/x", b""), NoNode),
        (SetOp("/a", b"", 3), BadVersion),
        (DeleteOp("/x"), NoNode),
        (DeleteOp("/a", 3), BadVersion),
        (DeleteOp("/a"), NotEmpty),
        (DeleteOp("/"), CoordinationError),
        (CheckOp("/x", 0), NoNode),
        (CheckOp("/a", 1), BadVersion),
    ],
)
def test_errors(op: CoordinationOp, error: type[CoordinationError]) -> None:
    tree = ZnodeTree()
    do(tree, CreateOp("/a", b""))
    do(tree, CreateOp("/a/b", b""))
    do(tree, CreateOp("/e", b"", ephemeral=True))
    before = tree.dump()
    outcome = tree.apply([op], Author(SESSION), 0)
    assert type(outcome.error) is error
    assert (outcome.events, tree.dump()) == ([], before)


def test_the_end_of_a_session_is_one_transaction() -> None:
    tree = ZnodeTree()
    for path in ("/b", "/a"):
        do(tree, CreateOp(path, b"", ephemeral=True))
    tree.apply([CreateOp("/c", b"", ephemeral=True)], Author(SESSION + 1), 0)
    zxid = tree.zxid
    assert [e for e in tree.end_session(SESSION) if e.kind is WatchKind.DELETED] == [
        WatchEvent(WatchKind.DELETED, "/a"),
        WatchEvent(WatchKind.DELETED, "/b"),
    ]
    assert tree.children("/") == ["c"]
    assert tree.zxid == zxid + 1


paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x"])
versions = st.sampled_from([-1, -1, 0, 1])
operations = st.one_of(
    st.builds(CreateOp, paths, st.binary(max_size=2), st.just(False), st.booleans()),
    st.builds(SetOp, paths, st.binary(max_size=2), versions),
    st.builds(DeleteOp, paths, versions),
    st.builds(CheckOp, paths, versions),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=12))
def test_a_multi_is_its_operations_one_by_one_or_nothing(
    batches: list[list[CoordinationOp]],
) -> None:
    tree = ZnodeTree()
    for ops in batches:
        twin = copy.deepcopy(tree)
        singles = [do(twin, op) for op in ops]
        failed = [i for i, result in enumerate(singles) if isinstance(result, CoordinationError)]
        before = (tree.dump(), tree.exists("/"))
        outcome = tree.apply(ops, Author(SESSION), 1000)
        if not failed:
            assert tree.dump() == twin.dump()
            assert tree.exists("/a") is None or tree.children("/a") == twin.children("/a")
        else:
            culprit = failed[0]
            assert (tree.dump(), tree.exists("/")) == before
            assert outcome.events == []
            assert type(outcome.results[culprit]) is type(singles[culprit])
            rest = outcome.results[:culprit] + outcome.results[culprit + 1 :]
            assert all(isinstance(result, RolledBack) for result in rest)


def test_the_error_of_a_multi_refers_to_no_frame() -> None:
    """Such a frame would refer to the results, the error among them: a cycle."""
    tree = ZnodeTree()
    outcome = tree.apply([CreateOp("/a", b""), CreateOp("/a", b"")], Author(SESSION), 1000)
    assert isinstance(outcome.results[0], RolledBack)
    assert isinstance(outcome.results[1], NodeExists)
    assert outcome.results[1].__traceback__ is None
