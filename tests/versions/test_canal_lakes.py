"""Lakes of Canal's and TiCDC's messages that the base commit made wrong: a run of the present code makes them right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.history import border
from tests.flows.short import SECOND
from tests.flows.source import Message
from tests.flows.ticdc_task import Ticdc, timestamp
from tests.versions.base import BASE
from tests.versions.captures import Case
from tests.versions.lakes import Place, placed, rows_alone, rows_of, written
from tests.versions.made_by import NOTHING, Codes, ask, make_lake, settle

pytestmark = pytest.mark.more


def of_ticdc() -> Case:
    """Two windows, the second of which begins with what was sent again."""
    task = Ticdc(7)
    task.work(border(0) + 5 * SECOND, 20)
    task.restart(border(1) + 5 * SECOND, since=timestamp(border(0) + 10 * SECOND))
    task.work(border(1) + 10 * SECOND, 20)
    return Case((tuple(task.messages),), {"format": "canal-json", "partitions": 2, "history": ["*"]})


def of_canal() -> Case:
    """A label behind a backslash, half a surrogate pair, a summer of Shanghai, and an update that tells nothing of its row."""
    types = {"id": "int(11)", "kind": r"enum('it\'s','b')", "note": "varchar(20)", "seen": "timestamp"}
    usual: dict[str, Any] = {
        "id": 1, "database": "bank", "table": "goods", "isDdl": False, "sql": "", "sqlType": {}, "mysqlType": types, "old": None,
        "pkNames": ["id"], "type": "INSERT", "gtid": "",
    }  # fmt: skip
    row = {"id": "1", "kind": "1", "note": "x", "seen": "1986-07-01 12:00:00"}
    alone = {"type": "UPDATE", "data": [{"note": "y"}], "pkNames": None, "mysqlType": {"note": "varchar(20)"}}
    given: list[dict[str, Any]] = [
        {"data": [row]},
        {"data": [row | {"id": "2", "kind": "2", "note": "@"}]},
        alone,
        {"data": [row | {"id": "3"}]},
    ]
    messages = []
    for number, fields in enumerate(given):
        at = border(number // 3) + (number + 1) * SECOND
        body = usual | {"es": int(at.timestamp()) * 1000, "ts": int(at.timestamp()) * 1000} | fields
        value = json.dumps(body).replace('"@"', r'"\ud800"').encode()
        messages.append(Message(0, number, at, value, number))
    settings = {"format": "canal-json", "partitions": 1, "history": ["*"], "source_time_zone": "Asia/Shanghai"}
    return Case((tuple(messages),), settings)


CASES = {"ticdc": of_ticdc, "canal": of_canal}


def typed(place: Place) -> dict[str, tuple[str, ...]]:
    found = {name: one.rows for name, one in rows_alone(place).items()}
    return {name: rows for name, rows in found.items() if name.startswith(("changelog.", "snapshot.", "history."))}


@pytest.mark.parametrize("name", CASES)
def test_a_lake_of_the_base_is_right_behind_a_run(name: str, codes: Codes, tmp_path: Path) -> None:
    case = CASES[name]()
    older = placed(case, tmp_path / "older", written(case, tmp_path / "pieces"))
    make_lake(codes.of(BASE), older.config, *older.whole())
    newer = placed(case, tmp_path / "newer", written(case, tmp_path / "more"))
    make_lake(codes.present, newer.config, *newer.whole())
    right = typed(newer)
    assert typed(older) != right
    lost = len(rows_of(older, "quarantine"))
    made = make_lake(codes.present, older.config, ask(), settle(), ask())
    stale, after = made.lakes[0].answers
    assert stale.entries
    assert after == NOTHING
    assert typed(older) == right
    assert len(rows_of(older, "quarantine")) == len(rows_of(newer, "quarantine")) < lost + (name == "canal")
