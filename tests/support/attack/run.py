"""One run: a cluster, a victim, an attacker beside it, and the judgement at the end."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.attack import victim as victims
from tests.support.attack.attacker import Attacker, attack
from tests.support.attack.frames import TOPICS, case_of
from tests.support.attack.victim import Victim
from tests.support.cluster.cluster_state import is_alive, until
from tests.support.cluster.real_cluster import RealCluster

THREADS = 4
REPORT_EVERY_S = 30
LISTED = 12  # cases
MEMORY_BOUND = 600 << 20  # how much more a broker may weigh at the end than at the start
# Events at level error that a client's input may cause: who poses as a controller and orders the
# impossible is refused aloud.
EXPECTED_ERRORS = frozenset(("controller_request_entry_refused",))
ERROR_EVENT = re.compile(r"\[(?:error|critical) *\] (\S+)")
OVERRIDES = (
    "min.insync.replicas=1",
    "log.segment.delete.delay.ms=500",
    "auto.create.topics.enable=true",
)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    found = []
    for each in bootstrap.split(","):
        host, _, port = each.rpartition(":")
        found.append((host, int(port)))
    return found


def prepare(bootstrap: str) -> None:
    """The topics of the victim and of the attacker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    brokers = len(admin.list_topics(timeout=30).brokers)
    new_topics = [NewTopic(name, 1, min(3, brokers)) for name in (victims.TOPIC, *TOPICS)]
    for future in admin.create_topics(new_topics).values():
        with contextlib.suppress(Exception):  # one is there already
            future.result(30)


def strike(bootstrap: str, seconds: float, seed: int, threads: int = THREADS) -> Victim:
    """Attack for so long with a victim beside it. Raises AssertionError for what it lost."""
    prepare(bootstrap)
    end = time.monotonic() + seconds
    with Victim(bootstrap) as victim:
        with Attacker(addresses(bootstrap), seed, threads) as attacker:
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, REPORT_EVERY_S))
                say(
                    f"seeds on their way {sorted(attacker.last_seeds.values())}, "
                    f"{dict(attacker.sent)}; the victim: {len(victim.acknowledged)} confirmed, "
                    f"longest wait {victim.longest_wait}"
                )
        wait = victim.longest_wait
        # The wait began when its cause was on its way, or had just been given up by the attacker.
        for struck in attacker.struck_between(wait.end_s - wait.seconds - 1, wait.end_s)[:LISTED]:
            say(f"  in the longest wait: seed {struck.seed}, {struck.kind[:80]}")
        victim.finish()
    say(
        f"{sum(attacker.sent.values())} cases; the victim: {len(victim.acknowledged)} confirmed, "
        f"all consumed, {victim.consumed_again} given again; "
        f"longest wait {victim.longest_wait}"
    )
    return victim


def strike_own_cluster(seconds: float, seed: int, home: Path | None = None) -> None:
    """Start three brokers and a ZooKeeper, attack them as ``strike`` does, and judge them, too."""
    home = home or Path(tempfile.mkdtemp(prefix="attack-"))
    say(f"first seed {seed}; data and logs in {home}")
    with RealCluster(home / "cluster", overrides=OVERRIDES) as cluster:
        pids = {each: cluster.broker_pid(each) for each in cluster.broker_ids}
        before = {each: resident(pid) for each, pid in pids.items()}
        try:
            strike(cluster.bootstrap, seconds, seed)
        finally:
            say(f"dead: {[each for each, pid in pids.items() if not is_alive(pid)]}")
            say(f"error events: {dict(error_events(cluster))}")
        judge(cluster, pids, before)


def judge(cluster: RealCluster, pids: dict[int, int], before: dict[int, int]) -> None:
    """The brokers that were started still run, quietly, and weigh no more than is bounded."""
    for broker_id, pid in pids.items():
        assert is_alive(pid), f"broker {broker_id} died"
        assert cluster.broker_pid(broker_id) == pid, f"broker {broker_id} was started again"
    until(lambda: registered(cluster) == cluster.broker_ids, "all brokers are registered", 60)
    unexpected = {k: n for k, n in error_events(cluster).items() if k not in EXPECTED_ERRORS}
    assert not unexpected, f"unexpected error events: {unexpected}"
    grown = {each: resident(pid) - before[each] for each, pid in pids.items()}
    say(
        f"memory grown, MB: {[f'{n / 1e6:.0f}' for n in grown.values()]}, "
        f"the bound is {MEMORY_BOUND / 1e6:.0f}"
    )
    assert max(grown.values()) <= MEMORY_BOUND, "a broker's memory grew beyond the bound"


def resident(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def registered(cluster: RealCluster) -> list[int]:
    with cluster.zk() as client:
        return sorted(map(int, client.get_children("/brokers/ids")))


def error_events(cluster: RealCluster) -> Counter[str]:
    """Names of events at level error in the brokers' logs. A line that a client forged would not
    be at a line's start."""
    found: Counter[str] = Counter()
    for broker_id in cluster.broker_ids:
        for line in cluster.log(broker_id).splitlines():
            match = ERROR_EVENT.search(line[:80])
            if match:
                found[match[1]] += 1
    return found


def replay(bootstrap: str, seeds: Sequence[int]) -> None:
    """Send the cases of single seeds to every broker, one after the other."""
    for seed in seeds:
        case = case_of(seed)
        say(f"seed {seed}: {case.kind}, {sum(map(len, case.sent))} bytes")
        for broker in addresses(bootstrap):
            say(f"  {broker[1]}: {attack(broker, case)} bytes came back")
