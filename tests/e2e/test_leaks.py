"""The commands as a user types them, over persons whose values have a mark: no file of Dagster, no log and no line has it.

The source is made up; rules hash, mask, tokenize and drop, a filter leaves rows out, some values fit no type, a message is
spoilt, and runs fail by errors that have a value in their text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.dts_messages import number
from tests.e2e.planted_errors import ERROR, FAULT, PLACES, in_each_process
from tests.flows.history import EVERY, START
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import BIGINT, INT, Field, Kind, Table
from tests.stateful.marked import MARK, MARKS, RULES, person_key, persons, plain_places
from tests.stateful.stream import Stream

pytestmark = [pytest.mark.more, pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SECRET = "Jh5wSecretKey0z-of-rules"
LIMIT = "Qw3nFilterText8r"
SOUGHT = (*MARKS, SECRET, LIMIT)

_UNFIT = Kind(INT.original_type, number, lambda random: f"{MARK}{random.randrange(99)}")
"""A number whose text is none."""


def sent(folder: Path) -> None:
    """Persons and their changes, with a default in a statement, a column of numbers that are none, and a spoilt message."""
    table = persons()
    table.columns += [Field("born", _UNFIT), Field("size", BIGINT), Field("place", table.columns[1].kind)]
    items = Table("items", [Field("id", INT, True), Field("n", INT)])
    stream = Stream([table, items], START, partitions=2, seed=5, fragmented=0.0, gtids=True)
    random = Random(5)
    for number_of_row in range(12):
        stream.later(20.0)
        stream.write([Dml(table, [(None, table.row(random, id=person_key(number_of_row)))])], flush=True)
    stream.write([Dml(items, [(None, items.row(random, id=1))])], flush=True)
    stream.write([Ddl(f"ALTER TABLE persons ADD COLUMN begun_0 varchar(80) NOT NULL DEFAULT '{MARK}3'")], flush=True)
    table.columns.append(Field("begun_0", table.columns[1].kind))
    stream.rows["persons"] = {key: {**row, "begun_0": f"{MARK}3"} for key, row in stream.rows["persons"].items()}
    rows = stream.rows["persons"]
    for key in list(rows)[:4]:
        stream.later(20.0)
        stream.write([Dml(table, [(rows[key], table.row(random, id=key[0]))])], flush=True)
    stream.vouch()
    stream.later(1200.0)
    stream.vouch()
    place = next(place for place, one in enumerate(stream.messages) if one.sequence > 3)
    stream.messages[place] = replace(stream.messages[place], value=f"no message: {MARK}4".encode())
    stream.publish(folder)


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"


class Shop:
    """A folder with a configuration, its lake and Dagster's home."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir()
        shutil.copy(ROOT / "dagster_home" / "dagster.yaml", self.home)
        in_each_process(folder / "site")
        sent(folder / "capture")
        columns: dict[str, Any] = {
            glob: {kind: {**told, "key": "${PII_KEY}"} for kind, told in rule.items()}
            if isinstance(rule, dict) and "mask" not in rule
            else rule
            for glob, rule in {**RULES, "bank.persons.born": {"hash": {}}, "bank.persons.place": {"hash": {}}}.items()
        }
        described = {
            "lake": {"warehouse": "./lake"},
            "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False}},
            "subscriptions": {
                "shop": {
                    "format": "dts-protobuf",
                    "source": {"capture": "./capture"},
                    "partitions": 2,
                    "window": {"every": "10m", "start": _text(START), "end": _text(START + 2 * EVERY)},
                    "columns": columns,
                    "rows": {"bank.persons": f"size > 0 OR place = '{LIMIT}'"},
                    "history": ["*"],
                    "sql": {"tables": ["*"]},
                }
            },
        }  # fmt: skip
        (folder / "pipeline.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
        self.lines: list[str] = []

    def run(self, *arguments: str, **planted: str) -> int:
        """Type a command and return its exit code; its lines are kept."""
        own = {name: value for name, value in os.environ.items() if name not in ("DTS_ASSETS_CONFIG", ERROR, FAULT)}
        done = subprocess.run(
            [sys.executable, "-m", "dts_assets", *arguments, "--config", str(self.folder / "pipeline.yaml")],
            env={
                **own, **planted, "DAGSTER_HOME": str(self.home), "PII_KEY": SECRET,
                "PYTHONPATH": os.pathsep.join([str(self.folder / "site"), str(ROOT)]),
            },
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        self.lines += (done.stdout + done.stderr).splitlines()
        return done.returncode

    def plain(self) -> list[str]:
        """The places of marks, of the rules' key and of the filter's text, but for the recording and the configuration."""
        folders = [one for one in self.folder.iterdir() if one.is_dir() and one.name not in ("capture", "site")]
        return plain_places(folders, self.lines, marks=SOUGHT)


def test_no_value_stands_in_a_log_or_in_dagsters_home_however_runs_end(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for place in PLACES:
        assert shop.run("run", **{ERROR: place}) not in (0, 2, 3), (place, shop.lines)
        assert shop.plain() == [], place
    assert any("ValueError" in line for line in shop.lines)
    assert shop.run("run") in (0, 3), shop.lines
    assert shop.run("rules", "check", "shop") == 0, shop.lines
    assert shop.plain() == []
    lake = shop.folder / "lake"
    assert plain_places([lake], (), beside=frozenset()), "the search finds what was sent"
    assert list(lake.glob("shop/snapshot/bank/persons/data/**/*.parquet"))
    assert any(shop.home.rglob("*.db"))
    assert (shop.home / "spark.log").stat().st_size


def test_a_text_that_the_product_leaves_in_an_error_is_found(tmp_path: Path) -> None:
    """So the search sees the pages of Dagster's databases, Spark's log and the lines."""
    shop = Shop(tmp_path)
    shop.run("run", **{ERROR: "a task", FAULT: "yes"})
    places = [one.partition(" (")[0] for one in shop.plain()]
    assert "spark.log" in places
    assert any(".db" in one for one in places)
