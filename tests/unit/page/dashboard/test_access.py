"""Who may use the page: roles, tokens, users, proxies, sign-ins, and the audit log."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.processes import ui
from minikafka.client.config import ClientConfig
from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.access.accounts import (
    PageAccount,
    is_password,
    nobodys_verifier,
    parse_tokens,
    parse_users,
    user_entry,
)
from minikafka.page.dashboard.access.audit import ActLog, AuditError
from minikafka.page.dashboard.access.doors import (
    MOST_SESSIONS,
    SESSION_MS,
    Doors,
    PageUser,
    Sessions,
    parse_proxies,
)
from minikafka.page.dashboard.access.roles import Role, needed_for_act, needed_for_request
from minikafka.page.dashboard.access.user_file import UserFile
from minikafka.page.dashboard.acting.acts import ACTS
from minikafka.page.dashboard.guards import Asked, Guard
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.world import RealClock
from tests.support.page_server import PageServer, page_server

SALT = b"0123456789abcdef"
PASSWORD = "correct horse"
ENTRY = user_entry("alice", Role.OPERATE, PASSWORD, SALT)
TOKEN = "0123456789abcdefABCDEF"
JSON = {"Content_Type": "application/json"}

# ------------------------------------------------------------------------------------------ roles

LEAST = {
    Role.LOOK: {name for name, act in ACTS.items() if not act.changes},
    Role.PRODUCE: {"produce"},
    Role.OPERATE: {
        *("topics-create", "topics-alter", "delete-records", "transactions-abort"),
        *("groups-reset-offsets", "groups-delete", "groups-delete-offsets", "elect-leaders"),
        *("reassign", "reassign-verify", "reassign-cancel"),
    },
}


@pytest.mark.mission("GLASS-135")
def test_each_act_has_the_role_that_its_damage_asks_for() -> None:
    for name, act in ACTS.items():
        role = next((role for role, names in LEAST.items() if name in names), Role.ADMINISTER)
        assert needed_for_act(name, {}, act.changes) is role, name
    assert needed_for_act("configs-alter", {"topic": "t"}) is Role.OPERATE
    assert needed_for_act("configs-alter", {"broker": 1}) is Role.ADMINISTER
    for unknown in ("broker-kill", "of-tomorrow"):
        assert needed_for_act(unknown, {"topic": "t"}) is Role.ADMINISTER
    assert needed_for_request("GET", "/api/export") is Role.LOOK
    assert needed_for_request("POST", "/api/produce") is Role.PRODUCE
    assert needed_for_request("POST", "/api/of-tomorrow") is Role.ADMINISTER


# --------------------------------------------------------------------------------------- accounts


@pytest.mark.mission("GLASS-136")
def test_an_entry_is_read_again_and_takes_its_password_only() -> None:
    (alice,) = parse_users(f"# who\n\n{ENTRY}\n", "users").values()
    assert (alice.name, alice.role) == ("alice", Role.OPERATE)
    assert is_password(alice.secret, PASSWORD)
    for wrong in ("", "correct hors", f"{PASSWORD} ", "x" * 2000):
        assert not is_password(alice.secret, wrong)
        assert not is_password(nobodys_verifier(), wrong)
    assert PASSWORD not in ENTRY
    assert alice.secret not in repr(alice)
    assert parse_users("bob:look:", "users")["bob"].secret == ""
    with pytest.raises(ConfigError, match="8 to 1024"):
        user_entry("alice", Role.LOOK, "short", SALT)


KEY = ENTRY.rpartition("$")[2]


@pytest.mark.mission("GLASS-136")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("alice:operate", "line 1: NAME:ROLE:VERIFIER is needed"),
        ("alice:root:", "line 1: the roles are look, produce, operate, administer"),
        (":look:", "1 to 100 characters"),
        ("alice:look:md5$x", "is not scrypt"),
        (f"alice:look:scrypt$16385$8$1$AA==${KEY}", "parameters that are not supported"),
        (f"alice:look:scrypt$1048576$8$1$AA==${KEY}", "parameters that are not supported"),
        ("alice:look:scrypt$16384$8$1$AA==$AA==", "parameters that are not supported"),
        ("alice:look:\nalice:look:", "line 2: alice is there twice"),
    ],
)
def test_a_line_of_users_that_is_wrong(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_users(line, "users")


@pytest.mark.mission("GLASS-136")
def test_fixed_tokens_have_a_name_and_a_role() -> None:
    plain, named = parse_tokens(f"{TOKEN}\nci:look:{TOKEN[::-1]}\n", "tokens")
    assert (plain.name, plain.role) == ("token", Role.ADMINISTER)
    doors = Doors(tokens=(plain, named))
    assert doors.by_token(TOKEN[::-1]) == PageUser("ci", Role.LOOK, "token")
    for other in ("", TOKEN[:-1], f"{TOKEN}x", "é"):
        assert doors.by_token(other) is None
    for wrong in ("", "short", f"a b{TOKEN}", f"ci:{TOKEN}", f"ci:all:{TOKEN}"):
        with pytest.raises(ConfigError) as error:
            parse_tokens(wrong, "tokens")
        assert TOKEN not in str(error.value)


# ------------------------------------------------------------------------------------------ doors

HOST = "127.0.0.1:8080"
ALICE = PageUser("alice", Role.OPERATE, "proxy")
PROXIED = Doors(
    users=parse_users("alice:operate:", "users"),
    user_header="X-Forwarded-User",
    proxies=parse_proxies(["10.0.0.0/8", "::1"]),
    names=frozenset({"kafka.example"}),
)


@pytest.mark.mission("GLASS-137")
def test_a_users_header_counts_from_trusted_addresses_only() -> None:
    guard = Guard("127.0.0.1", 8080, "", private=True, doors=PROXIED)
    asked = Asked("GET", "/api/snapshot", HOST, None, None, user="alice", peer="10.1.2.3")
    assert guard.identity(asked) == ALICE
    assert guard.refusal(asked) is None
    assert guard.identity(asked._replace(peer="::1")) == ALICE
    for changed in (
        {"peer": "11.0.0.1"},
        {"peer": None},
        {"peer": "garbage"},
        {"user": None},
        {"user": ""},
        {"user": "bob"},
    ):
        assert guard.identity(asked._replace(**changed)) is None
        assert guard.refusal(asked._replace(**changed)) is not None
    open_doors = PROXIED._replace(proxy_role=Role.LOOK)
    bob = guard._replace(doors=open_doors).identity(asked._replace(user="bob"))
    assert bob == PageUser("bob", Role.LOOK, "proxy")


@pytest.mark.mission("GLASS-137")
def test_the_name_of_a_proxy_is_served_and_other_sites_are_not() -> None:
    guard = Guard("127.0.0.1", 8080, "", private=True, doors=PROXIED)
    act = Asked("POST", "/api/do/x", HOST, "https://kafka.example", None, user="alice", peer="::1")
    assert guard.refusal(act) is None
    assert guard.refusal(act._replace(host="kafka.example")) is None
    assert guard.refusal(act._replace(host="evil.example")) is not None
    assert guard.refusal(act._replace(origin="https://evil.example")) is not None
    assert guard.refusal(act._replace(site="cross-site")) is not None
    assert "operate; this needs administer" in (guard.refusal(act._replace(path="/x")) or "")


@pytest.mark.mission("GLASS-134")
def test_a_stranger_may_ask_how_to_come_in_and_nothing_else() -> None:
    guard = Guard("127.0.0.1", 8080, "secret", private=True)
    asked = Asked("GET", "/api/session", HOST, None, "wrong")
    assert guard.refusal(asked) is None
    assert guard.refusal(asked._replace(method="POST", path="/api/sign-in")) is None
    assert guard.refusal(asked._replace(method="POST", path="/api/session")) is not None
    assert guard.refusal(asked._replace(path="/api/session/x")) is not None


@given(st.text(max_size=20))
def test_a_page_without_a_token_of_its_own_takes_none(token: str) -> None:
    assert Guard("127.0.0.1", 8080, "").identity_of_token(token) is None


@pytest.mark.mission("GLASS-136")
def test_sessions_end_and_are_bounded() -> None:
    now = 0
    numbers = iter(range(10**6))
    sessions = Sessions(lambda: now, lambda count: next(numbers).to_bytes(count, "big"))
    account = PageAccount("alice", Role.OPERATE, "verifier")
    first = sessions.open(account)
    assert sessions.find(first) == account
    now = SESSION_MS
    assert sessions.find(first) is None
    secrets = [sessions.open(account) for _ in range(MOST_SESSIONS + 1)]
    assert [sessions.find(each) for each in secrets[:2]] == [None, account]
    sessions.close(secrets[1])
    assert sessions.find(secrets[1]) is None


@pytest.mark.mission("GLASS-136")
def test_a_changed_file_of_users_counts_for_those_who_have_signed_in(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(ENTRY)
    users = UserFile(str(file))
    sessions = Sessions(lambda: 0, lambda count: bytes(count))
    guard = Guard("127.0.0.1", 8080, "", True, True, Doors(users=users), sessions)
    secret = sessions.open(users["alice"])
    asked = Asked("GET", "/api/snapshot", HOST, None, secret)
    assert guard.identity(asked) == PageUser("alice", Role.OPERATE, "password")
    file.write_text(f"{ENTRY}\n{ENTRY}")  # twice
    assert guard.identity(asked) == PageUser("alice", Role.OPERATE, "password")
    file.write_text(f"{ENTRY.replace(':operate:', ':look:')}\nbob:look:\n")
    assert guard.identity(asked) == PageUser("alice", Role.LOOK, "password")
    assert set(users) == {"alice", "bob"}
    other_password = user_entry("alice", Role.LOOK, "another one", SALT)
    file.write_text(other_password)
    assert guard.identity(asked) is None
    file.write_text(ENTRY)
    assert guard.identity(asked) is not None
    file.unlink()
    assert guard.identity(asked) is not None
    file.write_text("# nobody\n")
    assert guard.identity(asked) is None


# ------------------------------------------------------------------------------------------ verbs


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    ui.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.mission("GLASS-136")
def test_the_verb_makes_an_entry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PAGE_PASSWORD", PASSWORD)
    words = ("--user-entry", "alice", "--role", "operate", "--password-env", "PAGE_PASSWORD")
    assert ui.run(parsed(*words)) == 0
    file = tmp_path / "users"
    file.write_text(capsys.readouterr().out)
    doors = ui.doors_of(parsed("--bootstrap-server", "x:1", "--user-file", str(file)))
    assert is_password(doors.users["alice"].secret, PASSWORD)
    assert doors.ways == ["password"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--user-entry a", "needs a --role"),
        ("--bootstrap-server x:1 --role look", "go with --user-entry"),
        ("--bootstrap-server x:1 --user-header X-User", "needs --trusted-proxy"),
        ("--bootstrap-server x:1 --trusted-proxy ::1", "go with --user-header"),
        ("--bootstrap-server x:1 --user-header X --trusted-proxy ::1", "needs roles"),
    ],
)
def test_options_that_do_not_go_together(words: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ui.check(parsed(*words.split()))
    with pytest.raises(ConfigError, match="--trusted-proxy"):
        parse_proxies(["10.0.0.1/8"])


@pytest.mark.mission("GLASS-138")
def test_an_audit_log_that_cannot_be_written_says_whether_it_was_done() -> None:
    with open("/dev/full", "ab") as full:
        audit = ActLog(RealClock(), full.fileno())
        with pytest.raises(AuditError, match="nothing was done"):
            audit.begun(ALICE, None, "x", "y")
        with pytest.raises(AuditError, match="It is done, but"):
            audit.ended(ALICE, None, "x", "y", 0)
        with pytest.raises(AuditError, match="It is failed, but"):
            audit.ended(ALICE, None, "x", "y", 1, "why")


# --------------------------------------------------------------------------------- over a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1) as cluster:
        yield cluster


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def page(cluster: InsideCluster, log: Path) -> Iterator[PageServer]:
    doors = Doors(
        tokens=parse_tokens(f"ci:administer:{TOKEN}", "tokens"),
        users=parse_users(f"{ENTRY}\nbob:look:", "users"),
        user_header="X-Forwarded-User",
        proxies=parse_proxies(["127.0.0.1"]),
    )
    client = ClientConfig(cluster.bootstrap)
    with page_server(client, doors=doors, audit_log=str(log)) as page:
        yield page


def rows(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def create(page: PageServer, topic: str, **headers: str) -> Any:
    fields = {"topic": topic, "partitions": 1, "replication_factor": 1}
    return page.post("/api/do/topics-create", {"arguments": fields}, **JSON, **headers)


@pytest.mark.mission("GLASS-134", "GLASS-136", "GLASS-138")
def test_a_user_signs_in_acts_and_signs_out(page: PageServer, log: Path) -> None:
    assert page.token == ""
    session = page.get("/api/session").json
    assert (session["may_read"], session["who"]) == (False, None)
    assert session["ways"] == ["token", "password", "proxy"]
    assert page.get("/api/topics").status == 403
    wrong = page.post("/api/sign-in", {"user": "alice", "password": "wrong"}, **JSON)
    assert (wrong.status, wrong.json["error"]) == (403, "The user or the password is wrong.")
    assert page.post("/api/sign-in", {"user": "bob", "password": ""}, **JSON).status == 403
    signed = page.post("/api/sign-in", {"user": "alice", "password": PASSWORD}, **JSON)
    cookie = signed.headers["set-cookie"].partition(";")[0]
    assert "HttpOnly" in signed.headers["set-cookie"]
    session = page.get("/api/session", Cookie=cookie).json
    assert (session["who"], session["role"], session["way"]) == ("alice", "operate", "password")
    assert create(page, "orders", Cookie=cookie).json["status"] == 0
    deleting = {"arguments": {"topic": "orders"}}
    refused = page.post("/api/do/topics-delete", deleting, **JSON, Cookie=cookie)
    assert refused.status == 403
    assert refused.json["error"] == "alice has the role operate; this needs administer."
    preview = {**deleting, "preview": True}
    shown = page.post("/api/do/topics-delete", preview, **JSON, Cookie=cookie).json["command"]
    assert shown.endswith("--topic orders")
    assert page.post("/api/sign-out", {}, **JSON, Cookie=cookie).status == 200
    assert page.get("/api/session", Cookie=cookie).json["stale"] is True
    assert create(page, "invoices", Cookie=cookie).status == 403

    found = rows(log)
    assert [(row["who"], row["act"], row["result"]) for row in found] == [
        (None, "sign-in", "refused"),
        (None, "sign-in", "refused"),
        ("alice", "sign-in", "done"),
        ("alice", "topics-create", "begun"),
        ("alice", "topics-create", "done"),
        ("alice", "topics-delete", "refused"),
    ]
    begun = found[3]
    assert begun["command"].startswith("minikafka topics create --bootstrap-server 127.0.0.1:")
    assert (begun["role"], begun["from"]) == ("operate", "127.0.0.1")
    assert PASSWORD not in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.mission("GLASS-135", "GLASS-137", "GLASS-138")
def test_a_proxys_user_and_a_fixed_token_have_their_roles(page: PageServer, log: Path) -> None:
    assert page.get("/api/topics", X_Forwarded_User="bob").status == 200
    assert page.get("/api/topics", X_Forwarded_User="eve").status == 403
    refused = create(page, "by-bob", X_Forwarded_User="bob")
    assert (refused.status, refused.json["error"]) == (
        403,
        "bob has the role look; this needs operate.",
    )
    record = {"topic": "by-ci", "value": {"text": "secret value"}}
    assert page.post("/api/produce", record, **JSON, X_Forwarded_User="bob").status == 403
    assert rows(log)[-1]["act"] == "/api/produce"
    assert create(page, "by-ci", X_Minikafka_Token=TOKEN).json["status"] == 0
    fields = {"topic": "by-ci", "value": "secret value"}
    produce = {"arguments": fields}
    assert page.post("/api/do/produce", produce, **JSON, X_Minikafka_Token=TOKEN).status == 200
    acts = page.get("/api/acts", X_Minikafka_Token=TOKEN).json
    assert {act["name"]: act["role"] for act in acts}["configs-alter"] == "operate"
    redirect = page.get(f"/?token={TOKEN}")
    assert (redirect.status, TOKEN in redirect.headers["set-cookie"]) == (303, True)
    assert {(row["who"], row["result"]) for row in rows(log)} >= {
        ("bob", "refused"),
        ("ci", "done"),
    }
    assert "secret value" not in log.read_text()


@pytest.mark.mission("GLASS-135")
def test_a_page_that_is_read_only_refuses_administrators_too(cluster: InsideCluster) -> None:
    doors = Doors(tokens=parse_tokens(TOKEN, "tokens"))
    with page_server(ClientConfig(cluster.bootstrap), doors=doors, read_only=True) as page:
        refused = create(page, "never", X_Minikafka_Token=TOKEN)
        assert (refused.status, "--read-only" in refused.json["error"]) == (403, True)
