"""Clusters without pytest: a context manager, and a base class for ``unittest``.

with running(brokers=3) as kafka:
    orders = kafka.topic()
    App(kafka.config("confluent")).bill(orders)
    assert kafka.records("bills", count=1)
"""

from __future__ import annotations

import functools
import inspect
import tempfile
import unittest
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from minikafka.testing.clients import in_thread
from minikafka.testing.cluster import AnyCluster, place
from minikafka.testing.marks import ClusterChoice, cluster_choice
from minikafka.testing.pool import start_cluster
from minikafka.testing.view import TestView


class running:
    """A cluster for a ``with`` or an ``async with`` block, which ends with it.

    ``where`` is "inside" or "processes"; by default the fastest. ``settings`` are broker settings.
    After a block that raises nothing, a fault that never struck raises AssertionError, unless it
    has ``must_hit=False``. Raises ValueError and NotInThisPlace at once, and at the beginning of
    the block ConfigError, ClusterNotStarted or OSError.
    """

    def __init__(
        self,
        brokers: int = 1,
        where: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        place(where, ["blocking"])
        self._choice = cluster_choice(
            [], {"brokers": brokers, "where": where, "settings": settings or {}}
        )
        self._open = ExitStack()
        self._view: TestView | None = None

    def __enter__(self) -> TestView:
        with ExitStack() as stack:
            cluster = cluster_in(stack, self._choice)
            self._view = TestView(cluster, "topic")
            self._view.begin()
            self._open = stack.pop_all()
        return self._view

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._view is not None
        with self._open:
            if error is None:
                self._view.check_faults()

    async def __aenter__(self) -> TestView:
        return await in_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await in_thread(self.__exit__, kind, error, trace)


def cluster_in(stack: ExitStack, choice: ClusterChoice) -> AnyCluster:
    """Start a cluster that ends with ``stack``, as does the folder of its data, if it needs one."""

    def directory() -> Path:
        folder = tempfile.TemporaryDirectory(prefix="minikafka-", ignore_cleanup_errors=True)
        return Path(stack.enter_context(folder))

    cluster = start_cluster(choice, directory)
    stack.callback(cluster.close)
    return cluster


class MiniKafkaTestCase(unittest.TestCase):
    """A test case with a cluster, which the tests of the class share: ``self.minikafka``.

    Topics and groups that a test has made are deleted at its end, faults are removed, and brokers
    brought back. A fault that never struck fails the test, unless it has ``must_hit=False``. A
    class that overrides ``setUp`` or ``setUpClass`` calls that of this class first.
    """

    brokers: ClassVar[int] = 1
    where: ClassVar[str | None] = None
    settings: ClassVar[Mapping[str, object]] = {}

    minikafka: TestView
    _cluster: ClassVar[AnyCluster]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        keywords = {"brokers": cls.brokers, "where": cls.where, "settings": cls.settings}
        stack = ExitStack()
        cls.addClassCleanup(stack.close)
        cls._cluster = cluster_in(stack, cluster_choice([], keywords))

    def setUp(self) -> None:
        super().setUp()
        self.minikafka = TestView(self._cluster, topic_prefix(self.id().rpartition(".")[2]))
        self.minikafka.begin()
        self.addCleanup(self.minikafka.reset)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test, and check its faults at the end of its method, so that an idle one is a
        failure of the test."""
        name = self.id().rpartition(".")[2]
        before = self.__dict__.get(name)
        setattr(self, name, self._checked(getattr(self, name)))
        try:
            return super().run(result)
        finally:
            if before is None:
                delattr(self, name)
            else:
                setattr(self, name, before)

    def _checked(self, method: Callable[[], Any]) -> Callable[[], Any]:
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def checked_coroutine() -> None:
                await method()
                self.minikafka.check_faults()

            return checked_coroutine

        @functools.wraps(method)
        def checked() -> Any:
            result = method()
            self.minikafka.check_faults()
            return result

        return checked


def topic_prefix(test: str) -> str:
    """Return a name of a test as topics may begin with it: Kafka's letters, not too many."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in test)[:200]
