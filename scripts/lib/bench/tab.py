"""What learn mode in a browser tab weighs, and how long it takes to the first picture.

The server is on this machine, so a cold start has no network in it; its bytes are printed beside.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page

from minikafka.page.learn.site import PYTHON, keep_offline
from scripts.lib.bench.report import Report
from scripts.lib.screenshots import chromium
from scripts.lib.site import MANUAL, write_all
from scripts.lib.static_server import StaticServer, serving

REPEATS = 3
FIRST_PICTURE = ".story .beat"
LIMIT_MS = 120_000
PLAYED_S = 60
# Plays by requests of a worker beside the page's; returns the milliseconds it took.
_PLAY = """
async (seconds) => {
    const worker = new Worker("static/learn/worker.js", {type: "module"});
    const request = (body) => new Promise((resolve, reject) => {
        worker.onmessage = ({data}) => {
            if (data.messages) resolve(data.messages);
            else if (data.error) reject(new Error(data.error));
        };
        worker.postMessage({id: 1, request: body});
    });
    await request({do: "open", recipe: {seed: 1}});
    await request({do: "advance", to_us: 1e6, budget_ms: 5000});
    const started = performance.now();
    let now = 0;
    while (now < seconds * 1e6) {
        const messages = await request({do: "advance", to_us: seconds * 1e6, budget_ms: 5000});
        now = messages.at(-1).now_us;
    }
    worker.terminate();
    return performance.now() - started;
}
"""


def run(report: Report) -> None:
    report.section("learn mode in a browser tab")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        write_all(site)
        sizes(report, site)
        with serving(site) as server, chromium() as browser:
            colds, cacheds = [], []
            for _ in range(REPEATS):
                context = browser.new_context()
                colds.append(first_picture_s(context, server))
                cacheds.append(first_picture_s(context, server))
                context.close()
            report.row("first picture, cold", "s", min(colds))
            report.row("first picture, kept by the browser", "s", min(cacheds))
            page = browser.new_page()
            page.goto(server.url)
            page.wait_for_selector(FIRST_PICTURE, timeout=LIMIT_MS)
            spent_ms = page.evaluate(_PLAY, PLAYED_S)
            report.row("simulated seconds a second", "s/s", (PLAYED_S - 1) * 1000 / spent_ms)


def sizes(report: Report, site: Path) -> None:
    whole = keep_offline(site)
    python = list((site / PYTHON).iterdir())
    manual = [path for path in (site / MANUAL).rglob("*") if path.is_file()]
    report.row("all files", "MB", whole.size_bytes / 1e6)
    report.row("all files, with gzip", "MB", whole.gzip_bytes / 1e6)
    report.row("Python and the brokers", "MB", sum(p.stat().st_size for p in python) / 1e6)
    report.row("the documents", "MB", sum(p.stat().st_size for p in manual) / 1e6)


def first_picture_s(context: BrowserContext, server: StaticServer) -> float:
    """Open the page, and return the seconds until the chapter's first sentence is there. The
    browser has kept the site then."""
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector(FIRST_PICTURE, timeout=LIMIT_MS)
    seconds: float = page.evaluate("performance.now() / 1000")
    wait_until_kept(page)
    page.close()
    return seconds


def wait_until_kept(page: Page) -> None:
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
