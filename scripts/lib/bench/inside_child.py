"""One fresh interpreter of ``scripts/bench testing``: prints a JSON object with its measurements.

usage: inside_child.py WHAT STARTED [ARGUMENT]
``STARTED`` is the monotonic time (seconds) at which the parent started this interpreter. Times are
in milliseconds, memory in MB. This file imports only what it measures.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence

FURTHER = 5  # clusters, and cycles of a test, after the first ones
TIMEOUT_S = 30


def ms_since(started: float) -> float:
    return (time.monotonic() - started) * 1000


def memory() -> float:
    """Return the memory that this process has resident, in MB; the most that it had on macOS."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    with open("/proc/self/statm") as file:  # ru_maxrss counts what the parent had before exec
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def timed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return ms_since(begun)


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def imported(_: float, module: str) -> dict[str, float]:
    """Measure the import of a module, in CPU time and on the clock."""
    cpu, wall = time.process_time(), time.monotonic()
    __import__(module)
    return {"cpu": (time.process_time() - cpu) * 1000, "wall": ms_since(wall)}


def inside(started: float, brokers: str) -> dict[str, float]:
    """Measure the first cluster inside the process, and further ones."""
    before = memory()
    from minikafka.testing.inside.cluster import InsideCluster

    count = int(brokers)
    cluster = InsideCluster(count)
    cluster.start()
    measured = {"first": ms_since(started), "memory": memory() - before}
    cluster.stop()
    clusters = [InsideCluster(count) for _ in range(FURTHER)]
    times = [(timed(each.start), timed(each.stop)) for each in clusters]
    starts, stops = zip(*times, strict=True)
    return {**measured, "further": median(starts), "stop": median(stops)}


def cycle(_: float, brokers: str) -> dict[str, float]:
    """Measure what a test with the fixture ``minikafka`` takes: a topic, a record, cleaning up, of
    which ``end`` is a part; and the reset of a cluster after a topic."""
    import confluent_kafka

    from minikafka.testing.inside.cluster import InsideCluster
    from minikafka.testing.inside_place import InsidePlace
    from minikafka.testing.view import TestView

    def one(number: int) -> None:
        view = TestView(InsidePlace(cluster), f"cycle-{number}")
        view.begin()
        topic = view.topic()
        settings = {**view.config("confluent"), "log_level": 0}
        producer = confluent_kafka.Producer({**settings, "linger.ms": 0})
        producer.produce(topic, b"value")
        assert producer.flush(TIMEOUT_S) == 0
        consumer = confluent_kafka.Consumer({**settings, "group.id": "none"})
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"value"
        consumer.close()
        ends.append(timed(view.reset))

    ends: list[float] = []
    with InsideCluster(int(brokers)) as cluster:
        first, *further = [timed(lambda: one(number)) for number in range(1 + FURTHER)]  # noqa: B023
        resets = []
        for number in range(FURTHER):
            cluster.create_topic(f"reset-{number}")
            resets.append(timed(cluster.reset))
    return {
        "first": first,
        "further": median(further),
        "end": median(ends),
        "reset": median(resets),
    }


def mock(started: float, brokers: str) -> dict[str, float]:
    """Measure librdkafka's mock cluster, until a client knows its brokers."""
    before = memory()
    from confluent_kafka import Producer

    count = int(brokers)

    def one() -> None:
        producer = Producer(
            {"bootstrap.servers": "mock", "test.mock.num.brokers": count, "log_level": 0}
        )
        assert len(producer.list_topics(timeout=TIMEOUT_S).brokers) == count

    one()
    measured = {"first": ms_since(started), "memory": memory() - before}
    return {**measured, "further": median([timed(one) for _ in range(FURTHER)])}


MEASUREMENTS = {"import": imported, "inside": inside, "cycle": cycle, "mock": mock}


def main() -> None:
    what, started, *arguments = sys.argv[1:]
    measure = MEASUREMENTS[what]
    print(json.dumps(measure(float(started), arguments[0] if arguments else "")))


if __name__ == "__main__":
    main()
