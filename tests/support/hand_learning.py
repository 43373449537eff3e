"""A session of learn mode by hand: a clock, two sentences and a question, and three brokers.

It serves the requests of the page with the messages of the contract, without a simulated cluster,
so that tests of the page's own logic are quick and know every number.
"""

from __future__ import annotations

from typing import Any, Final

START_MS: Final = 1_700_000_000_000
HOSTS: Final = ("client", "broker-1", "broker-2", "broker-3", "zookeeper")
BEATS: Final[tuple[tuple[int, str, str, list[str]], ...]] = (
    (0, "say", "One record goes to `orders`.", ["stage", "host|broker-1"]),
    (40_000, "say", "Broker 1 has the record.", ["lanes", "partition|1|orders-0"]),
    (80_000, "ask", "Which broker responds?", ["stage"]),
    (80_000, "check", "The high watermark has moved.", []),
    (120_000, "say", "That was all.", ["stage"]),
)
LAST_US: Final = 120_000
CHINESE: Final = {"One record goes to `orders`.": "一条记录发往 `orders`。"}

BROKER: Final[dict[str, Any]] = {
    "name": "broker",
    "kind": "broker",
    "default": None,
    "least": 0,
    "most": 0,
    "choices": [],
}
MESSAGE: Final[dict[str, Any]] = {
    "name": "number",
    "kind": "number",
    "default": None,
    "least": 1,
    "most": 10**9,
    "choices": [],
}
ONE: Final = {**BROKER, "name": "one", "kind": "host"}
OTHER: Final = {**ONE, "name": "other"}
TOPIC: Final = {**BROKER, "name": "topic", "kind": "topic", "default": "t"}
RECORDS: Final = {**MESSAGE, "name": "records", "default": 1, "most": 10_000}
ACTIONS: Final = [
    {"name": "kill", "title": "Kill a broker, as kill -9 does.", "arguments": [BROKER]},
    {"name": "start", "title": "Start a broker that is down.", "arguments": [BROKER]},
    {"name": "cut", "title": "Cut the link between two hosts.", "arguments": [ONE, OTHER]},
    {"name": "heal", "title": "Heal the link between two hosts.", "arguments": [ONE, OTHER]},
    {"name": "zookeeper_away", "title": "Stop ZooKeeper.", "arguments": []},
    {"name": "produce", "title": "Produce numbered records.", "arguments": [TOPIC, RECORDS]},
    {"name": "hold_message", "title": "Hold a message.", "arguments": [MESSAGE]},
    {"name": "release_message", "title": "Release a message.", "arguments": [MESSAGE]},
]
CHAPTERS: Final = [
    {
        "name": "by-hand",
        "number": 1,
        "title": "By hand",
        "summary": "A short one.",
        "missions": ["TW-5"],
    },
    {"name": "another", "number": 2, "title": "Another", "summary": "The next.", "missions": []},
]


class HandLearning:
    """``requests`` are those that the page has sent so far."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.language = "en"
        self._begin("by-hand")

    def _begin(self, chapter: str) -> None:
        self.chapter = chapter
        self.now_us = 0
        self.end_us = 0
        self.said = 0
        self.story = "playing"
        self.chosen: int | None = None
        self.actions: list[list[Any]] = []
        self.sent = 0

    def request(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.requests.append(body)
        messages: list[dict[str, Any]] = getattr(self, f"do_{body['do']}")(body)
        if body["do"] in ("catalogue", "recipe", "source"):
            return messages
        return [*messages, self.playback()]

    # ------------------------------------------------------------------------------- the requests

    def do_open(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self._begin(body.get("chapter", "playground"))
        self.story = "playing" if "chapter" in body else "left"
        self.language = body["language"]
        return [self.hello(), *self.picture(), *self.play(0)]

    def do_advance(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return self.play(body["to_us"])

    def do_step(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return self.play(self.now_us + 5_000)

    def do_run_until(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return self.play(self.now_us + 10_000)

    def do_scrub(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.now_us, self.said, self.sent = 0, 0, 0
        messages = self.picture()
        while self.said < len(BEATS) and BEATS[self.said][0] <= body["to_us"]:
            messages.append(self.beat(self.said))
            self.said += 1
        self.story = "waiting"
        self.now_us = body["to_us"]
        return [*messages, *self.wire()]

    def do_continue(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.story = "done" if self.said == len(BEATS) else "playing"
        return []

    def do_answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.chosen = body["choice"]
        self.story = "playing"
        asked = next(i for i, beat in enumerate(BEATS) if beat[1] == "ask")
        return [self.beat(asked)]

    def do_act(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        arguments = body["arguments"]
        self.actions = [one for one in self.actions if one[0] <= self.now_us]
        self.actions.append([self.now_us, body["name"], arguments])
        self.end_us = self.now_us
        self.story = "left"
        if body["name"] == "produce" and arguments["topic"] == "":
            return [{"type": "problem", "text": "produce: the name of the topic is invalid"}]
        return [self.hosts()]

    def do_recipe(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        text = {
            "json": '{"seed":1}',
            "fragment": "FRAGMENT",
            "pytest": "def test_it() -> None: ...",
        }
        return [{"type": "recipe", **text}]

    def do_source(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "type": "source",
                **{k: body[k] for k in ("path", "name")},
                "line": 7,
                "text": "class TimingWheel:",
            }
        ]

    def do_catalogue(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"type": "catalogue", "chapters": CHAPTERS, "actions": ACTIONS}]

    def do_language(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.language = body["language"]
        return [self.beat(number) for number in range(self.said)]

    # ------------------------------------------------------------------------------- the messages

    def play(self, to_us: int) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if self.story in ("waiting", "asking"):
            return messages
        if self.story == "playing" and self.said < len(BEATS):
            due, kind, *_ = BEATS[self.said]
            self.now_us = max(self.now_us, min(to_us, due))
            while (
                self.story == "playing"
                and self.said < len(BEATS)
                and BEATS[self.said][0] <= self.now_us
            ):
                messages.append(self.beat(self.said))
                kind = BEATS[self.said][1]
                self.story = {"say": "waiting", "ask": "asking"}.get(kind, "playing")
                self.said += 1
        else:
            self.now_us = max(self.now_us, to_us)
        self.end_us = max(self.end_us, self.now_us)
        return [*messages, *self.wire()]

    def wire(self) -> list[dict[str, Any]]:
        """A Produce every 10 ms, which arrives 1 ms later; every third is held."""
        messages = []
        while self.sent * 10_000 + 1 <= self.now_us:
            sent_us = self.sent * 10_000 + 1
            self.sent += 1
            held = self.sent % 3 == 0
            arrived = sent_us + 1_000
            messages.append(
                {
                    "type": "wire",
                    "at": self.at,
                    "number": self.sent,
                    "source": "client",
                    "target": f"broker-{self.sent % 3 + 1}",
                    "api": "Produce",
                    "correlation_id": self.sent,
                    "request": True,
                    "sent_us": sent_us,
                    "held": held,
                    "lost": False,
                    "size": 120,
                    "arrived_us": None if held or arrived > self.now_us else arrived,
                }
            )
        return messages

    @property
    def at(self) -> int:
        return START_MS + self.now_us // 1000

    def beat(self, index: int) -> dict[str, Any]:
        t_us, kind, text, focus = BEATS[index]
        shown = CHINESE.get(text, text) if self.language == "zh" else text
        found = {
            "type": kind,
            "at": START_MS + t_us // 1000,
            "t_us": t_us,
            "number": index + 1,
            "key": f"beat-{index}",
            "text": shown,
            "focus": focus,
            "missions": ["TW-5"],
            "code": [{"path": "minikafka/core/timer.py", "name": "TimingWheel"}],
        }
        if kind == "ask":
            found |= {
                "options": ["The follower", "The leader"],
                "right": 1,
                "why": "It leads.",
                "chosen": self.chosen,
            }
        if kind == "check":
            found |= {"held": True}
        return found

    def hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "version": 1,
            "at": self.at,
            "cluster_id": "by-hand",
            "bootstrap": "broker-1:9092",
            "minikafka": True,
            "live": True,
            "learn": True,
            "read_only": True,
            "supervised": [],
        }

    def picture(self) -> list[dict[str, Any]]:
        partition = {
            "topic": "orders",
            "partition": 0,
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "replicas": [1, 2],
            "isr": [1, 2],
            "log_start_offset": 0,
            "high_watermark": 3,
            "log_end_offset": 3,
            "last_stable_offset": 3,
            "is_leader": True,
            "followers": [],
        }
        node = {
            "host": "broker-1",
            "port": 9092,
            "rack": None,
            "online": True,
            "version": None,
            "debug": None,
        }
        nodes = [
            {"kind": "node", "name": str(n), "facts": {**node, "id": n, "controller": n == 1}}
            for n in (1, 2, 3)
        ]
        topic = {
            "name": "orders",
            "internal": False,
            "configs": None,
            "partitions": [
                {
                    "partition": 0,
                    "leader": 1,
                    "leader_epoch": 0,
                    "replicas": [1, 2],
                    "isr": [1, 2],
                    "offline": [],
                    "log_start_offset": 0,
                    "high_watermark": 3,
                    "last_stable_offset": 3,
                }
            ],
        }
        whole = {"type": "state", "at": self.at, "broker": None, "reset": True, "removed": []}
        broker = {"type": "state", "at": self.at, "broker": 1, "reset": True, "removed": []}
        return [
            {**whole, "changed": [*nodes, {"kind": "topic", "name": "orders", "facts": topic}]},
            self.hosts(),
            {**broker, "changed": [{"kind": "partition", "name": "orders-0", "facts": partition}]},
        ]

    def hosts(self) -> dict[str, Any]:
        down = {args["broker"] for _, name, args in self.actions if name == "kill"}
        cut = [{args["one"], args["other"]} for _, name, args in self.actions if name == "cut"]
        changed = []
        for name in HOSTS:
            facts = {
                "name": name,
                "alive": int(name[-1]) not in down if name[-1].isdigit() else True,
                "paused": False,
                "isolated": False,
                "disk": "ok",
                "links": {other: "cut" for other in HOSTS if {name, other} in cut},
            }
            changed.append({"kind": "host", "name": name, "facts": facts})
        return {
            "type": "state",
            "at": self.at,
            "broker": None,
            "reset": False,
            "changed": changed,
            "removed": [],
        }

    def playback(self) -> dict[str, Any]:
        return {
            "type": "playback",
            "at": self.at,
            "now_us": self.now_us,
            "end_us": self.end_us,
            "chapter": self.chapter,
            "title": "By hand",
            "story": self.story,
            "pace": 200,
            "actions": self.actions,
            "branches": [],
            "checkpoints": [0],
            "failed": None,
            "score": None,
            "language": self.language,
            "reached": True,
        }
