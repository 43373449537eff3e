"""What the parts of the package import, in fresh interpreters: nothing that they may not need."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from minikafka import client
from minikafka.kernel.lazy_module import LazyModule, import_without, lazy_names
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import module_name

MESSAGES = "minikafka.protocol.messages."
# Libraries that take milliseconds to import, or much memory.
HEAVY = {
    "anyio", "cramjam", "crc32c", "cryptography", "gssapi", "h11", "joserfc", "kazoo", "mcp",
    "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "pygments", "re2", "rich", "starlette",
    "structlog", "uvloop", "uvicorn",
}  # fmt: skip

BASE_WINGS = (
    "kernel", "protocol", "core", "network", "world", "server", "client", "aio", "testing",
)  # fmt: skip
BASE_VERBS = ("broker", "doctor", "fake", "inside", "stop", "up", "zookeeper")

# Its directory of data is a file, so it ends before it connects to anything.
FAILING_BROKER = """
import contextlib, io
from minikafka.cli.main import main
with contextlib.redirect_stderr(io.StringIO()):
    main(['broker', '--override', 'log.dirs=/dev/null/data', '--override', 'broker.id=1'])
"""


def loaded_by(code: str) -> set[str]:
    """Run code in a fresh interpreter, and return the modules that it has imported."""
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nimport json\n"
    program += "print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


def heavy(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & HEAVY


@pytest.mark.mission("IN-10")
def test_the_doors_of_the_package_import_nothing_else() -> None:
    loaded = loaded_by("import minikafka, minikafka.testing")
    assert {name for name in loaded if name.startswith("minikafka")} == {
        "minikafka", "minikafka.testing",
    }  # fmt: skip


@pytest.mark.mission("IN-10")
def test_the_pytest_plugin_imports_only_pytest() -> None:
    loaded = loaded_by("import pytest\nbefore |= set(sys.modules)\nimport minikafka.testing.plugin")
    assert {name for name in loaded if "." not in name} <= {"minikafka"}
    assert {name for name in loaded if name.startswith("minikafka.")} <= {
        "minikafka.testing", "minikafka.testing.plugin",
    }  # fmt: skip


@pytest.mark.mission("IN-13")
def test_help_imports_no_verb_no_message_and_no_event_loop() -> None:
    loaded = loaded_by("from minikafka.cli.main import main\nassert main(['--help']) == 0")
    assert heavy(loaded) == set()
    assert not [name for name in loaded if name.startswith(MESSAGES)]
    assert loaded & {"asyncio", "argparse", "difflib", "importlib.metadata"} == set()
    rooms = ("cli.cluster", "cli.records", "client", "core", "network", "server")
    assert not [n for n in loaded for room in rooms if n.startswith(f"minikafka.{room}")]


@pytest.mark.mission("IN-13")
def test_a_verb_that_administers_imports_no_broker_and_no_consumer() -> None:
    loaded = loaded_by(
        "from minikafka.cli.main import main\n"
        "import minikafka.cli.cluster.topics, minikafka.world.real.world"
    )
    assert heavy(loaded) <= {"uvloop"}
    rooms = ("client.consumer", "client.producer", "server")
    assert not [n for n in loaded for room in rooms if n.startswith(f"minikafka.{room}")]
    assert MESSAGES + "fetch" not in loaded


def test_the_base_install_imports_no_page_no_spark_and_no_registry() -> None:
    """Every module of the wings that need no extra, and the verbs that start and examine brokers.
    What imports the page, Spark's or the registry's wing does so when it is used."""
    loaded = loaded_by(
        "import importlib, pkgutil\n"
        "def load(name):\n"
        "    module = importlib.import_module(name)\n"
        "    for found in pkgutil.iter_modules(getattr(module, '__path__', ())):\n"
        "        load(f'{name}.{found.name}')\n"
        f"for wing in {BASE_WINGS}: load(f'minikafka.{{wing}}')\n"
        f"for verb in {BASE_VERBS}: load(f'minikafka.cli.processes.{{verb}}')\n"
        "import minikafka.cli.main"
    )
    assert "minikafka.server.node.broker" in loaded
    wings = {name.split(".")[1] for name in loaded if name.startswith("minikafka.")}
    assert wings & {"page", "spark", "registry"} == set()


@pytest.mark.mission("IN-13")
def test_the_schemas_of_tools_are_made_without_the_protocol() -> None:
    loaded = loaded_by("import minikafka.cli.processes.mcp, minikafka.page.dashboard.tooling.tools")
    assert heavy(loaded) == set()


@pytest.mark.mission("IN-10")
def test_a_cluster_inside_the_process_starts_without_heavy_libraries() -> None:
    loaded = loaded_by(
        "from minikafka.testing.inside.cluster import InsideCluster\n"
        "with InsideCluster() as cluster: cluster.create_topic('t')"
    )
    assert heavy(loaded) == {"uvloop"}
    assert "importlib.metadata" not in loaded


@pytest.mark.mission("RUN-6")
def test_a_broker_whose_log_is_a_file_imports_nothing_that_prints() -> None:
    loaded = loaded_by(FAILING_BROKER)
    assert "structlog" in loaded
    assert heavy(loaded) & {"rich", "pygments"} == set()
    assert {"rich", "greenlet", "importlib.metadata", "email"} & loaded == set()


@pytest.mark.mission("SCALE-11")
def test_a_broker_at_rest_imports_nothing_that_few_requests_need() -> None:
    """As it starts in a cluster of `up`: it serves HTTP, and its log is a file."""
    loaded = loaded_by(
        f"{FAILING_BROKER}"
        "import minikafka.server.node.broker, minikafka.server.node.debug\n"
        "import minikafka.server.node.metrics_listener\n"
        "import minikafka.world.real.zookeeper"
    )
    assert {"structlog._output", "minikafka.server.storage.log_cleaner"} <= loaded
    assert {"bz2", "lzma", "pickle", "secrets", "shutil", "tempfile", "zlib"} & loaded == set()
    rare = (
        "core.log.compaction_filter", "core.metrics.prometheus", "server.broker.admin.configs",
        "server.broker.admin.partitions", "server.node.state_facts",
        "server.storage.cleaner.cleaning", "world.real.zookeeper_login",
    )  # fmt: skip
    assert {f"minikafka.{name}" for name in rare} & loaded == set()


@pytest.mark.mission("RUN-6")
def test_a_broker_imports_no_faults() -> None:
    loaded = loaded_by("import minikafka.server.node.broker")
    assert "minikafka.server.broker.apis.pipeline" in loaded
    assert not [name for name in loaded if "faults" in name]


@pytest.mark.mission("SCALE-11", "SEC-142")
def test_a_broker_without_authorizer_and_sasl_imports_neither() -> None:
    """So that no handler of it can be wrapped by a guard. Handlers that a broker at rest does not
    need are imported at their first request, and what serves HTTP only with a listener for it."""
    loaded = loaded_by(
        "from minikafka.testing.simulator.cluster import SimCluster\n"
        "async def scenario(cluster):\n"
        "    cluster.start()\n"
        "    await cluster.until('a controller', lambda: cluster.controller_id() == 1)\n"
        "SimCluster(1, (1,)).run(scenario)"
    )
    apis = "minikafka.server.broker.apis."
    assert apis + "pipeline" in loaded
    files = {f"{MESSAGES}{module_name(api_key)}" for api_key in ApiKey}
    rows = {
        name
        for name in loaded
        if name.startswith(apis) and f"{MESSAGES}{name.split('.')[-1]}" in files
    }
    assert rows == {apis + "api_versions", apis + "brokers.update_metadata"}
    others = (".acl_authorizer", ".jaas", ".listener_sasl", ".node.sasl", ".node.tls")
    assert not [name for name in loaded if name.endswith(others)]
    assert {
        "minikafka.server.listeners.http_server",
        "minikafka.server.node.state_facts",
    } & loaded == set()


@pytest.mark.mission("RUN-6")
def test_a_module_is_imported_without_another_that_others_still_find() -> None:
    loaded = loaded_by(
        "from minikafka.kernel.lazy_module import import_without\n"
        "import_without('structlog', 'rich', 'greenlet')\n"
        "import structlog\n"
        "assert structlog.dev.rich is None\n"
        "import rich"
    )
    assert {"structlog", "rich"} <= loaded


@pytest.mark.mission("RUN-6")
@pytest.mark.parametrize(("needs", "is_loaded"), [("version", False), ("version, files", True)])
def test_a_package_may_need_more_of_the_metadata_than_a_version(
    tmp_path: Path, needs: str, is_loaded: bool
) -> None:
    (tmp_path / "needy.py").write_text(f"from importlib.metadata import {needs}\n")
    loaded = loaded_by(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from minikafka.kernel.lazy_module import import_without_metadata\n"
        "import_without_metadata('needy')\n"
        "assert sys.modules['needy'].version"
    )
    assert ("importlib.metadata" in loaded) is is_loaded


def test_a_module_stands_in_for_another_in_a_block_only() -> None:
    loaded_by(
        "from minikafka.kernel.lazy_module import stand_in\n"
        "with stand_in('fractions', Fraction=int):\n"
        "    from fractions import Fraction\n"
        "assert Fraction is int\n"
        "import fractions\n"
        "assert fractions.Fraction(1, 2)\n"
        "with stand_in('fractions', Fraction=int):\n"  # it is there, and stays
        "    from fractions import Fraction\n"
        "assert Fraction is fractions.Fraction"
    )


def test_an_imported_package_is_never_hidden() -> None:
    fractions = import_module("fractions")
    import_without("numbers", "fractions")
    assert import_module("fractions") is fractions


@pytest.mark.mission("IN-12")
@pytest.mark.parametrize("kind", ["REQUESTS", "RESPONSES"])
def test_the_messages_of_an_api_are_imported_when_they_are_first_read(kind: str) -> None:
    """Each API alone: the registry knows all of them before, and has imported none."""
    code = f"""
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import module_name
from minikafka.protocol.messages import registry
prefix = {MESSAGES!r}
def messages(): return {{m for m in sys.modules if m.startswith(prefix)}} - {{prefix + "registry"}}
assert set(registry.{kind}) == set(ApiKey) and len(registry.{kind}) == len(ApiKey)
assert not messages()
for key in ApiKey:
    registry.version_range(key)
    assert not messages()
    found = registry.{kind}[key]
    assert found.__module__ in messages()
    # Descriptions of groups have a constant of describe_groups, the APIs of share groups some of
    # consumer groups; the APIs of streams groups share the structures of streams_topology.
    names = (
        "describe_groups",
        "consumer_group_describe",
        "consumer_group_heartbeat",
        "share_fetch",
        "streams_topology",
    )
    shared = {{prefix + name for name in names}}
    assert messages() <= {{found.__module__, *shared}}, (key, messages())
    assert found.SPEC.api_key is key and found is registry.{kind}[key]
    for module in messages():
        del sys.modules[module]
"""
    loaded_by(code)


def test_a_name_of_the_client_package_is_found_where_it_is_defined() -> None:
    for name in client.__all__:
        assert getattr(client, name) is not None
    assert client.Admin.__module__ == "minikafka.client.admin.admin"
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        client.Unknown  # type: ignore[attr-defined]  # noqa: B018


def test_a_lazy_module_has_the_attributes_of_the_module() -> None:
    module: Any = LazyModule("fractions")
    fractions = import_module("fractions")
    assert module.Fraction is fractions.Fraction
    assert "Fraction" in vars(module)  # found once
    with pytest.raises(AttributeError, match="unknown"):
        module.unknown  # noqa: B018
    find = lazy_names("tests", {"fractions": ("Fraction",)})
    assert find("Fraction") is fractions.Fraction


def test_every_api_has_messages() -> None:
    registry = import_module(MESSAGES + "registry")
    for api_key in ApiKey:
        assert registry.REQUESTS[api_key].SPEC.is_request
        assert registry.response_class(registry.REQUESTS[api_key]) is registry.RESPONSES[api_key]
