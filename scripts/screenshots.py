"""``make screenshots``: the example in a Dagster of its own, looked at by a real browser, as docs/images/*.png.

Everything lies in a temporary folder and ends with this program, also when it is interrupted. The browser is Chromium, spoken
to by its own DevTools protocol over the websocket library that Dagster's webserver brings, so that no package is needed for it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from websockets.sync.client import ClientConnection, connect

HOUSE = Path(__file__).resolve().parent.parent
IMAGES = HOUSE / "docs" / "images"
WIDTH, HEIGHT = 1500, 950
LARGEST = 300_000
"""Bytes of one image."""

KAFKA_PARTITIONS = [f"p{number:02d}" for number in range(4)]
WINDOWS = [f"2026-01-05-{hour:02d}:00" for hour in range(8)]
INGEST = (("shop", "raw_envelopes"), ("shop", "entries"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING_BROWSER = "screenshots: Chromium is missing: install it (on Debian and Ubuntu: apt-get install chromium)."

Found = TypeVar("Found")


class ScreenshotError(Exception):
    """An obstacle to taking the pictures; the text is a sentence for a person."""


def until(ask: Callable[[], Found | None], what: str, *, seconds: float) -> Found:
    """Return the first answer that is not None or false.

    Raises:
        ScreenshotError: It does not come in time.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.5)
    raise ScreenshotError(f"screenshots: {what} did not come in {seconds:.0f} s.")


def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process with its children in a group of their own; all end with the block."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, cwd=HOUSE, env=dict(environment), stdout=stream, stderr=stream, start_new_session=True
        )
    try:
        yield process
    finally:
        for sign, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
            try:
                os.killpg(process.pid, sign)
                process.wait(patience)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def find_browser() -> str:
    """Return the path of a Chromium, which is installed if possible.

    Raises:
        ScreenshotError: There is none, and none can be installed.
    """
    for attempt in range(2):
        for name in BROWSERS:
            path = shutil.which(name)
            if path is not None:
                return path
        if attempt == 0 and not _install_browser():
            break
    raise ScreenshotError(MISSING_BROWSER)


def _install_browser() -> bool:
    """Install Chromium with apt, as root or where sudo asks nothing, like scripts/setup.sh."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") is None or (root and shutil.which("sudo") is None):
        return False
    sys.stderr.write("screenshots: installing chromium\n")
    install = [*root, "apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    return subprocess.run(install, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode == 0


@dataclass(slots=True)
class Page:
    """One tab of a browser, driven by DevTools commands."""

    socket: ClientConnection
    hidden: str
    number: int = 0

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command.

        Raises:
            ScreenshotError: The browser refuses it; the text has the browser's words.
        """
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=60))
            if answer.get("id") == self.number:
                break
        if "error" in answer:
            raise ScreenshotError(f"screenshots: the browser refused {method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def open(self, address: str, *, shows: Sequence[str], seconds: float = 60) -> None:
        """Go to a page and wait until it shows these texts, complete and without a spinner."""
        self.send("Page.navigate", url=address)
        until(lambda: self.shows(shows), f"{address} with {shows}", seconds=seconds)
        self.settle()

    def shows(self, texts: Sequence[str]) -> bool:
        """Return whether the page has all texts now."""
        return bool(
            self.evaluate(f"{json.dumps(list(texts))}.every(text => (document.body?.innerText ?? '').includes(text))")
        )

    def settle(self) -> None:
        """Wait until two looks, a second apart, see the same page without a spinner."""
        seen: list[str] = []

        def still() -> bool:
            turning = self.evaluate(
                "document.querySelectorAll('[class*=spinner i], [class*=Spinner], [class*=loading i]').length"
            )
            seen.append("" if turning else str(self.evaluate("document.body.innerHTML.length")))
            time.sleep(1)
            return len(seen) > 1 and bool(seen[-1]) and seen[-1] == seen[-2]

        try:
            until(still, "a page at rest", seconds=20)
        except ScreenshotError:
            return  # a run that goes on is never at rest

    def click(self, text: str) -> None:
        """Click the innermost element whose first line is this text.

        Raises:
            ScreenshotError: There is no such element.
        """
        found = self.evaluate(
            "(() => { const all = [...document.querySelectorAll('button, a, [role=tab], [role=button], label, div, span')]"
            f".filter(one => one.innerText?.trim().split('\\n')[0] === {json.dumps(text)}); const one = all[all.length - 1];"
            " one?.click(); return !!one; })()"
        )
        if not found:
            raise ScreenshotError(f"screenshots: the page has nothing called {text!r} to click.")
        time.sleep(1)

    def press(self, key: str, *, alt: bool = False) -> None:
        """Press a key, such as ``e`` or ``Escape``."""
        number, code = (27, key) if key == "Escape" else (ord(key.upper()), f"Key{key.upper()}")
        pressed = {"modifiers": int(alt), "key": key, "code": code, "windowsVirtualKeyCode": number}
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, **pressed)
        time.sleep(1)

    def resize(self, height: int) -> None:
        """Give the page another height, at the pictures' width."""
        self.send("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, name: str) -> None:
        """Write a picture of the page to docs/images, with paths of a lake at the root.

        Raises:
            ScreenshotError: The picture is too large.
        """
        self.evaluate(
            "(() => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
            f"for (let one; (one = walk.nextNode());) one.data = one.data.replaceAll({json.dumps(self.hidden)}, ''); }})()"
        )
        self.evaluate("document.activeElement?.blur()")
        taken = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if len(taken) > LARGEST:
            raise ScreenshotError(f"screenshots: {name} has {len(taken):,} bytes, more than {LARGEST:,}.")
        IMAGES.mkdir(parents=True, exist_ok=True)
        (IMAGES / f"{name}.png").write_bytes(taken)
        sys.stderr.write(f"screenshots: docs/images/{name}.png, {len(taken) // 1000} KB\n")


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Open a tab of a browser without a window, of the pictures' size."""
    profile = folder / "browser"
    command = [
        find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}",
        "about:blank",
    ]  # fmt: skip
    with running(command, log=folder / "browser.log", environment=os.environ):
        told = profile / "DevToolsActivePort"
        port = until(lambda: told.read_text().split()[0] if told.exists() else None, "the browser", seconds=60)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
            tab = next(one for one in json.load(answer) if one["type"] == "page")
        with connect(tab["webSocketDebuggerUrl"], max_size=None) as connection:
            page = Page(connection, hidden=str(folder))
            page.send("Page.enable")
            page.resize(HEIGHT)
            yield page


@dataclass(frozen=True, slots=True)
class Dagster:
    """A running webserver with its daemon."""

    address: str
    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    def ask(self, query: str, **variables: Any) -> dict[str, Any] | None:
        """Return the data of a GraphQL answer; None while there is no answer."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                data: dict[str, Any] | None = json.load(answer).get("data")
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return None
        return data

    def backfill(self, keys: Sequence[Sequence[str]], partitions: Sequence[str]) -> str:
        """Begin a backfill of some assets, as the dialog of the UI does, and return its name.

        Raises:
            ScreenshotError: Dagster refuses it.
        """
        asked = {"assetSelection": [{"path": list(key)} for key in keys], "partitionNames": list(partitions)}
        query = (
            "mutation($asked: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $asked) "
            "{ __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"
        )
        answer = (self.ask(query, asked=asked) or {}).get("launchPartitionBackfill", {})
        if "backfillId" not in answer:
            raise ScreenshotError(f"screenshots: Dagster did not take the backfill: {answer}")
        return str(answer["backfillId"])

    def backfill_state(self, name: str) -> tuple[str, list[dict[str, str]]]:
        """Return the status of a backfill, and its runs: ``("COMPLETED", [{"id": "ab12", "status": "SUCCESS"}])``."""
        query = (
            "query($name: String!) { partitionBackfillOrError(backfillId: $name) "
            "{ ... on PartitionBackfill { status runs(limit: 50) { id status } } } }"
        )
        found = (self.ask(query, name=name) or {}).get("partitionBackfillOrError", {})
        return str(found.get("status", "")), found.get("runs", [])

    def some_runs_ended(self, name: str) -> bool:
        """Return whether at least one run of a backfill has succeeded.

        Raises:
            ScreenshotError: The backfill failed.
        """
        self.ended(name)
        _, runs = self.backfill_state(name)
        return any(run["status"] == "SUCCESS" for run in runs)

    def materialized(self, asset: str) -> str:
        """Return a materialized partition of an asset of the example."""
        query = (
            "query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) "
            "{ ... on AssetNode { assetMaterializations(limit: 1) { partition } } } }"
        )
        found = (self.ask(query, key={"path": ["shop", asset]}) or {})["assetNodeOrError"]["assetMaterializations"]
        return str(found[0]["partition"])

    def ended(self, name: str) -> bool:
        """Return whether a backfill has succeeded.

        Raises:
            ScreenshotError: The backfill failed.
        """
        status, _ = self.backfill_state(name)
        if status.startswith(("FAIL", "CANCEL", "COMPLETED_FAILED")):
            raise ScreenshotError(f"screenshots: a backfill of the example ended as {status}.")
        return status == "COMPLETED_SUCCESS"


@contextmanager
def dagster(folder: Path) -> Iterator[Dagster]:
    """Serve the example's definitions with an empty lake and an instance of its own, all in ``folder``."""
    home = folder / "dagster_home"
    home.mkdir()
    shutil.copy(HOUSE / "dagster_home" / "dagster.yaml", home)
    shutil.copytree(HOUSE / "registry", folder / "registry")
    text = (HOUSE / "pipeline.yaml").read_text().replace("./examples/", f"{HOUSE}/examples/")
    (folder / "pipeline.yaml").write_text(text)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "DTS_ASSETS_CONFIG": str(folder / "pipeline.yaml"),
    }
    port = free_port()
    command = [
        str(Path(sys.executable).parent / "dagster"),
        "dev",
        "-w",
        str(HOUSE / "workspace.yaml"),
        "-p",
        str(port),
    ]
    with running(command, log=folder / "dagster.log", environment=environment):
        server = Dagster(f"http://127.0.0.1:{port}", folder, environment)
        until(
            lambda: (server.ask("{ assetNodes { id } }") or {}).get("assetNodes"),
            "Dagster with the assets",
            seconds=180,
        )
        yield server


def make_and_look(server: Dagster, page: Page) -> None:
    """Fill the lake by backfills, and take the pictures on the way."""
    ingest = server.backfill(INGEST, [f"{partition}|{window}" for partition in KAFKA_PARTITIONS for window in WINDOWS])
    until(lambda: server.some_runs_ended(ingest), "the end of a run", seconds=900)
    look_at_backfill(server, page, ingest)
    look_at_partitions(server, page)
    until(lambda: server.ended(ingest), "the end of the ingest", seconds=900)
    nodes = (server.ask("{ assetNodes { assetKey { path } } }") or {})["assetNodes"]
    keys = [node["assetKey"]["path"] for node in nodes]
    tables = server.backfill([key for key in keys if key[1] in ("changelog", "snapshot")], WINDOWS)
    until(lambda: server.ended(tables), "the end of the tables", seconds=900)
    look_at_run(server, page, tables)
    look_at_graph(server, page)
    page.resize(HEIGHT)
    page.open(f"{server.address}/assets/shop/snapshot/shopdb/orders", shows=["part of the primary key"])
    page.picture("snapshot")
    look_at_plots(server, page)  # the last one: the UI remembers which sections of an asset were folded


def look_at_backfill(server: Dagster, page: Page, name: str) -> None:
    """Take the picture of a backfill in progress."""
    page.resize(420)
    page.open(f"{server.address}/runs/b/{name}", shows=["shop / raw_envelopes", "shop / entries", "completed"])
    page.picture("backfill")


def look_at_partitions(server: Dagster, page: Page) -> None:
    """Take the picture of all partitions, some of them done, with the facts of one."""
    page.resize(HEIGHT)
    page.open(f"{server.address}/assets/shop/raw_envelopes?view=partitions", shows=KAFKA_PARTITIONS)
    done = server.materialized("raw_envelopes")
    page.click(done.partition("|")[0])
    page.click(done.partition("|")[2])
    until(lambda: page.shows(["message_bytes"]), "the metadata of a partition", seconds=60)
    page.settle()
    page.picture("partitions")


def look_at_run(server: Dagster, page: Page, name: str) -> None:
    """Take the picture of the log of the tables' run, without Dagster's own events."""
    page.resize(HEIGHT)
    _, runs = server.backfill_state(name)
    page.open(f"{server.address}/runs/{runs[0]['id']}", shows=["RUN_SUCCESS"])
    page.click("Levels (5/6)")
    page.click("event")
    page.press("Escape")
    page.settle()
    page.picture("run")


def look_at_graph(server: Dagster, page: Page) -> None:
    """Take the picture of all assets in their groups."""
    page.resize(1300)
    page.open(f"{server.address}/asset-groups", shows=["_snapshot", "_changelog"])
    page.press("e", alt=True)  # expands all groups
    until(lambda: page.shows(["order_items", "type_gallery"]), "the expanded graph", seconds=60)
    page.settle()
    page.picture("graph")


def look_at_plots(server: Dagster, page: Page) -> None:
    """Take the picture of the numbers of entries over all Kafka partitions and windows."""
    page.resize(1500)
    page.open(f"{server.address}/assets/shop/entries", shows=["Metadata"])
    for section in ("Status", "Description", "Columns", "Plots"):
        page.click(section)
    until(lambda: page.shows(["event_lag_seconds"]), "the plots", seconds=60)
    page.settle()
    page.picture("plots")


def main() -> int:
    """Run the command."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        find_browser()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True)))
            server = stack.enter_context(dagster(folder))
            page = stack.enter_context(browser(folder))
            make_and_look(server, page)
    except ScreenshotError as error:
        sys.stderr.write(f"{error}\n")
        return 13
    except KeyboardInterrupt:
        sys.stderr.write("screenshots: interrupted; everything that was started has been ended\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
