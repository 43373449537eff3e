"""Watches become events, once each, in their own term and session only."""

from typing import Any

import pytest

from minikafka.core.controller import events
from minikafka.kernel.ports import WatchEvent, WatchKind
from minikafka.server.controller.watches import Watches, event_of

K = WatchKind


@pytest.mark.mission("CDU-3", "CDU-4", "CDU-5", "CDU-6", "CDU-7", "CDU-11")
@pytest.mark.parametrize(
    ("kind", "path", "event"),
    [
        (K.CREATED, "/controller", events.ControllerChange()),
        (K.CHANGED, "/controller", events.ControllerChange()),
        (K.DELETED, "/controller", events.Reelect()),
        (K.CHILDREN, "/brokers/ids", events.BrokerChange()),
        (K.CHANGED, "/brokers/ids/7", events.BrokerModifications(7)),
        (K.DELETED, "/brokers/ids/7", None),
        (K.CHANGED, "/brokers/ids/07", None),
        (K.CHANGED, "/brokers/ids/\N{ARABIC-INDIC DIGIT SEVEN}", None),
        (K.CHANGED, "/brokers/ids/2147483648", None),
        (K.CHILDREN, "/brokers/topics", events.TopicChange()),
        (K.CHANGED, "/brokers/topics/t", events.PartitionModifications("t")),
        (K.DELETED, "/brokers/topics/t", None),
        (K.CHILDREN, "/admin/delete_topics", events.TopicDeletion()),
        (K.CHILDREN, "/isr_change_notification", events.IsrChangeNotification()),
        (K.CHILDREN, "/log_dir_event_notification", events.LogDirEventNotification()),
        (K.DELETED, "/brokers/ids", None),
    ],
)
def test_each_watch_becomes_its_event(kind: Any, path: str, event: Any) -> None:
    assert event_of(WatchEvent(kind, path)) == event


@pytest.mark.mission("CFO-2")
def test_watches_of_an_earlier_term_are_ignored() -> None:
    put: list[Any] = []
    watches = Watches(put.append)
    watches.begin_term()
    first = watches.term
    assert watches.term is first  # the same for every path: ZooKeeper keeps it once per path
    watches.end_term()
    first(WatchEvent(K.CHILDREN, "/brokers/ids"))
    watches.begin_term()
    first(WatchEvent(K.CHILDREN, "/brokers/ids"))
    assert put == []
    watches.term(WatchEvent(K.CHILDREN, "/brokers/ids"))
    assert put == [events.BrokerChange()]


@pytest.mark.mission("CDU-11")
def test_one_watch_on_controller_per_session() -> None:
    put: list[Any] = []
    watches = Watches(put.append)
    first = watches.controller(1)
    assert watches.controller(1) is None
    second = watches.controller(2)  # the next session has no watch yet
    assert first is not None
    assert second is not None
    first(WatchEvent(K.DELETED, "/controller"))
    assert put == []
    second(WatchEvent(K.DELETED, "/controller"))
    assert put == [events.Reelect()]
    assert watches.controller(2) is not None
