"""New tables make the code location reload, where the address of the UI is known."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from dts_assets.defs import reload
from dts_assets.defs.reload import TableReloader, reload_code_location
from dts_assets.defs.table_assets import graph_tables
from dts_assets.model.tables import TableId
from dts_assets.settings import ui_address

if TYPE_CHECKING:
    from tests.defs.projects import Project

ORDERS, ITEMS = TableId("shopdb", "", "orders"), TableId("shopdb", "", "items")
COLUMNS = [("id", "int", True)]
RELOADED = {"data": {"reloadRepositoryLocation": {"__typename": "WorkspaceLocationEntry"}}}
FAILED = {"data": {"reloadRepositoryLocation": {"__typename": "PythonError", "message": "no"}}}


class Ui(ThreadingHTTPServer):
    """Answers as a UI does, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.reply: Any = RELOADED
        self.takes = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Ui

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append({"path": self.path, **json.loads(body)})
        time.sleep(self.server.takes)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.reply).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def ui() -> Iterator[Ui]:
    with Ui() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def reloader(project: Project, address: str | None) -> TableReloader:
    return TableReloader(
        project.subscription, address, frozenset(asset.key for asset in graph_tables(project.subscription))
    )


def test_nothing_new_asks_for_nothing(project: Project, ui: Ui) -> None:
    project.register({ORDERS: COLUMNS})
    assert reloader(project, ui.address).reload_if_new_tables() is None
    assert ui.asked == []


def test_a_new_table_asks_once(project: Project, ui: Ui) -> None:
    project.register({ORDERS: COLUMNS})
    loaded = reloader(project, ui.address)
    project.register({ITEMS: COLUMNS})
    said = loaded.reload_if_new_tables()
    assert said is not None
    assert "shop/changelog/shopdb/items, shop/snapshot/shopdb/items" in said
    assert said.endswith("the code location was reloaded")
    (asked,) = ui.asked
    assert asked["path"] == "/graphql"
    assert asked["variables"] == {"location": "dts_assets"}
    assert "reloadRepositoryLocation(repositoryLocationName: $location)" in asked["query"]
    assert loaded.reload_if_new_tables() is None
    assert len(ui.asked) == 1
    project.register({TableId("shopdb", "", "more"): COLUMNS})
    assert loaded.reload_if_new_tables() is not None
    assert len(ui.asked) == 2


def test_tables_that_are_not_decoded_are_no_reason(project: Project, ui: Ui) -> None:
    loaded = reloader(project, ui.address)
    project.register({TableId("crm", "", "people"): COLUMNS})
    assert loaded.reload_if_new_tables() is None


def test_without_an_address_a_person_is_told(project: Project) -> None:
    loaded = reloader(project, None)
    project.register({ORDERS: COLUMNS})
    for _ in range(2):
        said = loaded.reload_if_new_tables()
        assert said is not None
        assert said.endswith("reload the code location")


def test_a_ui_that_is_not_there_is_asked_again_at_the_next_tick(project: Project, ui: Ui) -> None:
    loaded = reloader(project, "http://127.0.0.1:1")
    project.register({ORDERS: COLUMNS})
    for _ in range(2):
        said = loaded.reload_if_new_tables()
        assert said is not None
        assert "did not take the request" in said


def test_a_reload_that_fails_says_so(ui: Ui) -> None:
    ui.reply = FAILED
    assert not reload_code_location(ui.address).taken
    assert "could not reload dts_assets (PythonError)" in reload_code_location(ui.address).said
    ui.reply = {"errors": [{"message": "x"}]}
    assert "no answer" in reload_code_location(ui.address).said


def test_a_reload_that_takes_long_is_not_waited_for(ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "_WAIT_SECONDS", 0.1)
    ui.takes = 0.5
    found = reload_code_location(ui.address)
    assert (found.taken, found.said) == (True, "the code location is being reloaded")


def test_the_environment_says_where_the_ui_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTS_ASSETS_UI", raising=False)
    assert ui_address() is None
    monkeypatch.setenv("DTS_ASSETS_UI", " ")
    assert ui_address() is None
    monkeypatch.setenv("DTS_ASSETS_UI", "http://localhost:3000/")
    assert ui_address() == "http://localhost:3000"
