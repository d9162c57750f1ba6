"""Rows whose keys do not fit their types: each stays a row of its own, by the source's own text of its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import dts_messages
from tests.flows.harness import Bench, Harness
from tests.flows.history import border
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import DATABASE, Dml, Source
from tests.flows.source_tables import ABSENT, DATE, INT, TEXT, Field, Kind, Row, Table

pytestmark = pytest.mark.spark

BYTES = Kind("varchar(20)", lambda value: dts_messages.text(value), TEXT.make)
"""Text as the bytes that a server holds, whether or not they are UTF-8."""

DAY = "the day's \\ d.ay"
"""A name that has to be quoted in SQL."""

ZERO, NEVER, REAL = "0000-00-00", "2021-02-30", "2021-05-17"


def days() -> Table:
    return Table("days", [Field(DAY, DATE, True), Field("tag", BYTES, True), Field("n", INT), Field("note", TEXT)])


def _row(day: str, tag: bytes, n: object = 0, note: object = None) -> Row:
    return {DAY: day, "tag": tag, "n": n, "note": note}


def _change(source: Source, at: Any, *rows: tuple[Row | None, Row | None]) -> None:
    for number, pair in enumerate(rows):
        source.transaction(at + number * SECOND, Dml(source.tables["days"], [pair]))


def _found(harness: Harness) -> dict[tuple[str, bytes], tuple[Any, Any]]:
    """The snapshot by the source's own key; each value is what the source would show of it."""
    found: dict[tuple[str, bytes], tuple[Any, Any]] = {}
    for row in harness.rows("snapshot", DATABASE, "days"):
        texts = dict(row["_invalid"] or ())
        assert all(row[name] is None for name in texts), "a value is there, or its text"
        day = texts[DAY] if row[DAY] is None else str(row[DAY])
        tag = bytes.fromhex(texts["tag"][2:]) if row["tag"] is None else row["tag"].encode()
        assert (day, tag) not in found
        found[day, tag] = (texts.get("n", row["n"]), row["note"])
    return found


def _expected(source: Source) -> dict[tuple[str, bytes], tuple[Any, Any]]:
    return {(row[DAY], row["tag"]): (row["n"], row["note"]) for row in source.rows["days"].values()}


def _history() -> list[tuple[Source, dict[tuple[str, bytes], tuple[Any, Any]]]]:
    """One source at the end of each of three windows, with what it held there."""
    source, held = short_source(days()), []
    first, second, third, real = (
        _row(ZERO, b"\xff", 1), _row(ZERO, b"\xfe", 2), _row(NEVER, b"\xff", 3, "kept"), _row(REAL, b"a", 4)
    )  # fmt: skip
    _change(
        source, border(0) + SECOND, *[(None, one) for one in (first, second, third, real, _row(REAL, b"\xff", "many"))]
    )
    source.checkpoint(border(0) + 300 * SECOND)
    held.append((source, _expected(source)))
    moved, unmade = _row("2021-03-02", b"b", 3, "kept"), _row("2021-02-31", b"a", 4)
    _change(source, border(1) + SECOND, (first, None), (second, {**second, "n": 20}), (third, moved), (real, unmade))
    source.checkpoint(border(1) + 300 * SECOND)
    held.append((source, _expected(source)))
    again = _row(ZERO, b"\xff", "a lot")
    _change(source, border(2) + SECOND, (None, again), (moved, None), (unmade, {**unmade, "tag": b"\xff"}))
    _change(source, border(2) + 60 * SECOND, (None, _row(REAL, b"fits", 9)))
    source.checkpoint(border(2) + 300 * SECOND)
    held.append((source, _expected(source)))
    return held


def test_rows_with_unfit_keys_live_and_die_one_by_one(bench: Bench, tmp_path: Path) -> None:
    moments = _history()
    harness = open_short(bench, tmp_path / "capture", moments[-1][0].messages)
    harness.raw()
    harness.entries()
    for number, (_, expected) in enumerate(moments):
        harness.tables(number)
        assert _found(harness) == expected
    harness.tables(1)  # replaced: keys of its old and its new version are computed again
    assert _found(harness) == moments[-1][1]


@pytest.mark.long
def test_rows_with_unfit_keys_whatever_the_order_of_windows(bench: Bench, tmp_path: Path) -> None:
    moments = _history()
    harness = open_short(bench, tmp_path / "capture", moments[-1][0].messages)
    harness.raw()
    harness.entries()
    for number in (2, 0, 1, 0):
        harness.tables(number)
    assert _found(harness) == moments[-1][1]


@pytest.mark.long
def test_absent_columns_follow_rows_with_unfit_keys(bench: Bench, tmp_path: Path) -> None:
    """An absent column keeps its value, and the text of one that did not fit."""
    source = short_source(days())
    rows = [_row(ZERO, b"\xff", "many", "one"), _row(ZERO, b"\xfe", 2, "two"), _row(NEVER, b"a", 3, "three")]
    _change(source, border(0) + SECOND, *[(None, one) for one in rows])
    source.checkpoint(border(0) + 5 * SECOND)
    changes: list[Row] = [{"note": "changed"}, {"n": "seven"}, {"note": None}]
    for number, changed in enumerate(changes):
        old = {DAY: rows[number][DAY], "tag": rows[number]["tag"], "n": ABSENT, "note": ABSENT}
        new: Row = {DAY: ABSENT, "tag": ABSENT, "n": ABSENT, "note": ABSENT, **changed}
        _change(source, border(1) + (1 + number) * SECOND, (old, new))
    harness = open_short(bench, tmp_path / "capture", source.messages, windows=2)
    harness.all(0)
    harness.all(1)
    expected = {
        (ZERO, b"\xff"): ("many", "changed"), (ZERO, b"\xfe"): ("seven", "two"), (NEVER, b"a"): (3, None)
    }  # fmt: skip
    assert _found(harness) == expected
    harness.tables(0)
    assert _found(harness) == expected
