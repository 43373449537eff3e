"""What tests of the static site share: the site, built once for each worker process. The modules
that need it are one group of pytest-xdist, so that one process builds it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minikafka.page.learn.site import keep_offline, write_mode, write_site

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.site)


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node or npm, which build the site, is not installed")
    directory = tmp_path_factory.mktemp("site") / "site"
    write_site(directory)
    write_mode(directory, documents="manual/index.html")
    keep_offline(directory)
    return directory
