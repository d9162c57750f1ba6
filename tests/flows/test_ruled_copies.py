"""Copies of tables under rules: no plain value stands in the lake once a copy is written, and a rule is applied once."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dts_assets.flows import kept_copies
from dts_assets.flows.maintenance import maintain
from dts_assets.flows.pauses import resume_tables
from dts_assets.flows.plain_values import find_plain_values, replace_plain_values
from dts_assets.flows.removal import add_tables, remove_tables
from dts_assets.flows.repairs import enter_repair
from dts_assets.flows.this_process import this_process
from dts_assets.model.columns import ColumnShape
from dts_assets.model.copied_tables import CopyKind, CopyState
from dts_assets.model.lake_layers import LAKE_LAYERS
from dts_assets.model.maintenance import Step
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.stages.copied_rules import NO_COPY_RULES
from dts_assets.store.lake import Lake
from tests.flows import copied
from tests.flows.copied import Read, copy_rows, texts
from tests.flows.harness import Bench, Harness, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.plain_values import plain_values
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml, Source
from tests.flows.source_tables import BLOB, INT, TEXT, Field, Row, Table

KEY = "a key that nobody guesses"
ITEMS = table_id("items")
LAYERS = {one.name for one in LAKE_LAYERS}

TABLE = Table(
    "items",
    [
        Field("id", INT, True),
        *(Field(name, TEXT) for name in "abcd"),
        Field("e", BLOB),
        Field("m", INT),
        Field("n", INT),
    ],
)
COLUMNS: dict[str, Any] = {
    "bank.items.a": "drop",
    "*.B": {"hash": {"key": KEY}},
    "bank.items.c": {"mask": "***"},
    "bank.it*.d": {"tokenize": {"key": KEY, "pattern": "plain-d-[0-9]+", "keep_last": 2}},
    "bank.items.e": {"hash": {"key": KEY}},
    "bank.items.m": {"hash": {"key": KEY}},
}
ROWS = {"bank.items": "n < 100 AND a LIKE 'plain-%'"}


def sealed(value: bytes) -> str:
    return hmac.digest(KEY.encode(), value, "sha256").hex()


def row(number: int, n: int = 5) -> Row:
    values = {name: f"plain-{name}-{number:016}" for name in "abcd"}
    return {"id": number, **values, "e": b"plain-e-\xff" + bytes([number]), "m": number, "n": n}


def ruled(one: Row) -> Row:
    """The row as the rules of :data:`COLUMNS` make it."""
    token = f"card tok_{sealed(one['d'].encode())[:32]}{one['d'][-2:]}".removeprefix("card ")
    return {
        "id": one["id"], "b": sealed(one["b"].encode()), "c": "***", "d": token, "e": sealed(one["e"]),
        "m": sealed(str(one["m"]).encode()), "n": one["n"],
    }  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "copies")


def source_of() -> tuple[Source, Read]:
    """A topic that has some rows of the table, and the copy of it with all rows: 1 to 6, and 7 and 8 beyond the filter."""
    source = short_source(TABLE)
    source.transaction(border(0) + SECOND, Dml(TABLE, [(None, row(1))]))
    at = source.committed
    source.transaction(border(0) + 20 * SECOND, Dml(TABLE, [(None, row(9))]))
    source.checkpoint(border(0) + 500 * SECOND)
    source.transaction(border(1) + SECOND, Dml(TABLE, [(None, row(10))]))
    source.checkpoint(border(1) + 500 * SECOND)
    return source, Read(at, at, (*(row(number) for number in range(1, 7)), row(7, n=100), row(8, n=5000)))


def opened(bench: Bench, source: Source, **settings: Any) -> Harness:
    return open_short(bench, bench.folder / "capture", source.messages, windows=2, **{"name": "shop", **settings})


def plain_files(harness: Harness, *, secrets: tuple[str, ...] = ("plain-", KEY)) -> set[str]:
    """The layers with files, of any version, that hold a plain value or a key; those of raw and entries are left out."""
    found = plain_values(Path(harness.pipeline.lake.location.warehouse), secrets)
    return {layer for name in found for layer in Path(name).parts if layer in LAYERS}


def shown(harness: Harness, database: str = "bank") -> list[Row]:
    names = ("id", "b", "c", "d", "e", "m", "n")
    found = harness.rows("snapshot", database, "items")
    return sorted(({name: one[name] for name in names if name in one} for one in found), key=lambda one: one["id"])


def test_rules_are_applied_once_when_a_copy_is_written(bench: Bench) -> None:
    source, read = source_of()
    harness = opened(bench, source, columns=COLUMNS, rows=ROWS, history=["*"], sql={"tables": ["*"]})
    copy_rows(harness, TABLE, [read])
    (one,) = harness.pipeline.ledger.copied_tables()
    assert one.rows == 6
    assert {passed.column for passed in one.passed} == {"a", "b", "c", "d", "e", "m"}
    assert plain_files(harness) == set()
    assert KEY not in repr(one)
    assert harness.settle()
    assert shown(harness) == [ruled(row(number)) for number in (*range(1, 7), 9, 10)]
    assert plain_files(harness) == set()
    before = harness.everything()
    harness.all(0, 1)
    assert harness.everything() == before


def test_a_copy_gives_the_rows_that_events_give(bench: Bench, tmp_path: Path) -> None:
    """The same rows, as events of one lake and as the copy of another, have equal values in the changelog."""
    source, read = source_of()
    begun = short_source(TABLE)
    begun.transaction(border(0) + SECOND, Dml(TABLE, [(None, one) for one in read.rows]))
    begun.checkpoint(border(0) + 500 * SECOND)
    harness = opened(bench, source, columns=COLUMNS, rows=ROWS)
    copy_rows(harness, TABLE, [read])
    harness.settle()
    other = open_short(bench, tmp_path / "other", begun.messages, windows=1, columns=COLUMNS, rows=ROWS)
    other.settle()
    mine, theirs = (
        sorted(str(one["after"]) for one in each.rows("changelog", *ITEMS.path) if one["op"] in ("read", "insert"))
        for each in (harness, other)
    )
    assert set(theirs) <= set(mine)
    assert len(theirs) == 6


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"columns": {**COLUMNS, "*.B": {"hash": {"key": KEY + "!"}}}}, id="key"),
        pytest.param({"columns": {glob: one for glob, one in COLUMNS.items() if glob != "*.B"}}, id="gone"),
        pytest.param({"columns": {**COLUMNS, "*.B": {"mask": "*"}}}, id="rule"),
        pytest.param({"rows": {"bank.items": "n < 10"}}, id="filter"),
        pytest.param({"rows": {}}, id="no-filter"),
    ],
)
@pytest.mark.more(after=1)
def test_another_rule_than_at_writing_pauses_the_table_until_it_is_copied_anew(
    changed: dict[str, Any], bench: Bench
) -> None:
    source, read = source_of()
    harness = opened(bench, source, columns=COLUMNS, rows=ROWS)
    copy_rows(harness, TABLE, [read])
    harness.settle()
    before = shown(harness)
    again = opened(bench, source, **{"columns": COLUMNS, "rows": ROWS, **changed})
    again.settle()
    (paused,) = again.pipeline.ledger.paused_tables()
    assert "has passed another r" in paused.reason
    assert "dts-assets resync shop bank.items" in paused.reason
    assert shown(again) == before
    copy_rows(again, TABLE, [read], CopyKind.RESYNC)
    resume_tables(again.pipeline, [ITEMS])
    assert again.settle()
    old, new = again.pipeline.ledger.copied_tables()
    assert (old.state, new.state) == (CopyState.DROPPED, CopyState.COPIED)
    assert new.kind is CopyKind.BOOTSTRAP, "as of a moment before it the table is absent"
    assert not again.pipeline.ledger.paused_tables()
    fresh = bench.open(
        bench.folder / "capture",
        partitions=2,
        window={"end": border(2)},
        name="fresh",
        **{"columns": COLUMNS, "rows": ROWS, **changed},
    )
    copy_rows(fresh, TABLE, [read])
    fresh.settle()
    assert shown(again) == shown(fresh)


@pytest.mark.more
def test_a_column_that_is_dropped_later_needs_no_other_copy(bench: Bench) -> None:
    source, read = source_of()
    harness = opened(bench, source, columns=COLUMNS)
    copy_rows(harness, TABLE, [read])
    harness.settle()
    again = opened(bench, source, columns={**COLUMNS, "*.B": "drop"})
    assert again.settle()
    assert not again.pipeline.ledger.paused_tables()
    assert {one.get("b") for one in shown(again)} == {None}


def without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let copies be written as an earlier version wrote them."""
    monkeypatch.setattr(copied, "rules_to_pass", lambda *_: NO_COPY_RULES)


@pytest.mark.more
@pytest.mark.parametrize("taken", [True, False], ids=["taken", "waiting"])
def test_a_rule_that_comes_later_is_applied_to_copies_that_stand(
    taken: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain values leave the present version with the next run, and the former ones with the expiry."""
    source, read = source_of()
    harness = opened(bench, source)
    without_rules(monkeypatch)
    copy_rows(harness, TABLE, [read])
    if taken:
        harness.settle()
        assert plain_files(harness) == {"changelog", "copies", "snapshot"}
    text_rules = {glob: one for glob, one in COLUMNS.items() if glob not in ("bank.items.e", "bank.items.m")}
    rules = {"columns": text_rules, "rows": ROWS}
    again = opened(bench, source, **rules)
    assert again.settle()
    assert "were written anew under its rules" in "\n".join(again.lines)
    (one,) = again.pipeline.ledger.copied_tables()
    assert {passed.column for passed in one.passed} == {"a", "b", "c", "d"}
    assert not any("plain-" in value for each in again.rows("copies", *ITEMS.path) for value in _texts(each))
    expected = [{**ruled(row(number)), "e": row(number)["e"], "m": number} for number in (*range(1, 7), 9, 10)]
    assert shown(again) == expected
    before = _rows(again)
    again.all(0, 1)
    assert _rows(again) == before
    assert "copies" not in plain_files(again, secrets=("plain-a", "plain-b", "plain-c", "plain-d"))


def expire(harness: Harness) -> None:
    """Let all versions expire that may, some days later."""
    now = datetime.now(UTC) + timedelta(days=3)
    done = maintain(harness.pipeline, only=[Step.EXPIRY], spark=this_process, progress=harness.lines.append, now=now)
    assert [one.failed for one in done] == [()]


def _rows(harness: Harness) -> dict[str, list[str]]:
    """All rows but the counts: what a filter left out of a copy was counted until it left the copy."""
    return {name: rows for name, rows in harness.everything().items() if name != "window_tables"}


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.more
def test_plain_copies_are_found_and_replaced_by_the_commands_for_rules(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, read = source_of()
    harness = opened(bench, source)
    without_rules(monkeypatch)
    copy_rows(harness, TABLE, [read])
    harness.settle()
    again = opened(bench, source, columns={"bank.items.b": {"hash": {"key": KEY}}})
    found = find_plain_values(again.pipeline)
    assert {(one.layer, one.column) for one in found} == {(layer, "b") for layer in ("changelog", "copies", "snapshot")}
    assert not replace_plain_values(again.pipeline, spark=this_process, progress=again.lines.append)
    assert find_plain_values(again.pipeline) == []
    assert "copies" not in plain_files(again, secrets=("plain-b",))


@pytest.mark.more
def test_a_repair_passes_the_rules_and_its_removals_count(bench: Bench) -> None:
    """Rows that the source does not have are told by their keys alone: no filter leaves them out."""
    source, read = source_of()
    harness = opened(bench, source, columns=COLUMNS, rows=ROWS)
    copy_rows(harness, TABLE, [read])
    harness.settle()
    columns = tuple(ColumnShape(one.name, one.kind.original_type, one.is_key) for one in TABLE.columns)
    changed, gone = {**row(2), "b": "plain-b-new"}, {**dict.fromkeys(row(3)), "id": 3}
    rows, removed = texts(columns, [changed]), texts(columns, [gone])
    at = SourcePosition(0, *max(source.contents))
    enter_repair(harness.pipeline, ITEMS, columns, at, rows=rows, removed=removed, origin="a test")
    assert plain_files(harness) == set()
    harness.settle()
    assert shown(harness) == [ruled(changed if number == 2 else row(number)) for number in (1, 2, 4, 5, 6, 9, 10)]


@pytest.mark.more
def test_rows_of_a_copy_with_a_hashed_key_are_those_that_events_change(bench: Bench) -> None:
    """The hash of a copied key is that of the same key in an event: an update and a delete find their rows."""
    source, read = source_of()
    first, second = row(2), row(3)
    source.rows["items"] |= {(2,): first, (3,): second}
    changed = {**first, "n": 7}
    source.transaction(border(1) + 20 * SECOND, Dml(TABLE, [(first, changed)]))
    source.transaction(border(1) + 30 * SECOND, Dml(TABLE, [(second, None)]))
    source.checkpoint(border(1) + 550 * SECOND)
    harness = opened(bench, source, columns={"bank.items.id": {"hash": {"key": KEY}}}, history=["*"], deletes="soft")
    copy_rows(harness, TABLE, [read])
    assert harness.settle()
    found = {one["id"]: one for one in harness.rows("snapshot", *ITEMS.path) if one["_deleted_at"] is None}
    assert found.keys() == {sealed(str(number).encode()) for number in (1, 2, *range(4, 11))}
    assert found[sealed(b"2")]["n"] == 7


@pytest.mark.more
def test_a_copied_table_that_gets_the_name_of_a_ruled_one_is_written_anew(bench: Bench) -> None:
    """The rule is on a table that the rows reach by a statement, which nobody knew when they were copied."""
    source, read = source_of()
    source.transaction(border(1) + 20 * SECOND, Ddl("RENAME TABLE items TO clients"))
    source.checkpoint(border(1) + 550 * SECOND)
    rules = {"bank.clients.b": {"hash": {"key": KEY}}, "bank.clients.d": {"mask": "***"}}
    harness = opened(bench, source, columns=rules)
    copy_rows(harness, TABLE, [read])
    assert plain_files(harness, secrets=("plain-b", "plain-d")) == {"copies"}
    assert harness.settle()
    for number in range(2):
        harness.all(number)
    assert plain_files(harness, secrets=("plain-b", "plain-d")) == set()
    found = sorted(harness.rows("snapshot", "bank", "clients"), key=lambda one: one["id"])
    assert [one["b"] for one in found] == [sealed(f"plain-b-{number:016}".encode()) for number in range(1, 11)]
    assert {one["d"] for one in found} == {"***"}


@pytest.mark.more
@pytest.mark.parametrize("step", ["note", "removal"])
def test_a_run_that_is_stopped_while_it_writes_a_copy_anew_is_gone_on_with(
    step: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the new rows and the note of their rules, and between the note and the end of the old rows."""
    source, read = source_of()
    harness = opened(bench, source)
    without_rules(monkeypatch)
    copy_rows(harness, TABLE, [read])
    text_rules = {glob: one for glob, one in COLUMNS.items() if glob not in ("bank.items.e", "bank.items.m")}
    again, replace_rows = opened(bench, source, columns=text_rules, rows=ROWS), Lake.replace

    def stopped(*_: Any, **__: Any) -> Any:
        raise RuntimeError("stopped")

    def without_removal(lake: Lake, path: tuple[str, ...], rectangle: Any, files: Any, **more: Any) -> Any:
        if path[1] == "copies" and not files:
            raise RuntimeError("stopped")
        return replace_rows(lake, path, rectangle, files, **more)

    with monkeypatch.context() as patch:
        if step == "note":
            patch.setattr(kept_copies, "change", stopped)
        else:
            patch.setattr(Lake, "replace", without_removal)
        again.settle()
    assert "stays as it is for now" in "\n".join(again.lines)
    assert len(again.rows("copies", *ITEMS.path)) == 8 + 6
    for _ in range(2):
        again.all(1)
    expected = [{**ruled(row(number)), "e": row(number)["e"], "m": number} for number in (*range(1, 7), 9, 10)]
    again.all(0)
    assert shown(again) == expected
    assert len(again.rows("copies", *ITEMS.path)) == 6
    assert not any("plain-" in value for each in again.rows("copies", *ITEMS.path) for value in _texts(each))


@pytest.mark.more
def test_a_copy_that_was_begun_under_other_rules_is_given_up_by_the_next_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, read = source_of()
    harness = opened(bench, source)
    without_rules(monkeypatch)
    copy_rows(harness, TABLE, [read], finished=False)
    harness.settle()
    assert harness.pipeline.ledger.copied_tables()[0].state is CopyState.READING, (
        "it goes on when it is asked for again"
    )
    text_rules = {glob: one for glob, one in COLUMNS.items() if glob not in ("bank.items.e", "bank.items.m")}
    again = opened(bench, source, columns=text_rules)
    again.settle()
    (one,) = again.pipeline.ledger.copied_tables()
    assert one.state is CopyState.CANCELLED
    assert again.rows("copies", *ITEMS.path) == []
    assert "has other rules since its copy was begun" in "\n".join(again.lines)


@pytest.mark.more
@pytest.mark.parametrize(
    "routes",
    [
        pytest.param({"rename": {"bank.*": "shop.*"}}, id="rename"),
        pytest.param({"merge": {"shop.items": ["bank.ite*"]}}, id="merge"),
    ],
)
def test_copies_have_the_rules_of_the_table_that_their_rows_come_to(routes: dict[str, Any], bench: Bench) -> None:
    """A filter may look at the columns that tell the shard."""
    source, read = source_of()
    columns = {glob.replace("bank.", "shop."): rule for glob, rule in COLUMNS.items()}
    rows = {"shop.items": ROWS["bank.items"] + (" AND _source_table = 'items'" if "merge" in routes else "")}
    harness = opened(bench, source, columns=columns, rows=rows, **routes)
    copy_rows(harness, TABLE, [read])
    (one,) = harness.pipeline.ledger.copied_tables()
    assert one.rows == 6
    assert plain_files(harness) == set()
    assert harness.settle()
    assert not harness.pipeline.ledger.paused_tables()
    assert shown(harness, "shop") == [ruled(row(number)) for number in (*range(1, 7), 9, 10)]
    assert plain_files(harness) == set()
    table = TableId("shop", "", "items")
    assert remove_tables(harness.pipeline, [table], progress=harness.lines.append) == 3
    assert harness.pipeline.ledger.copied_tables()[0].state is CopyState.DROPPED
    add_tables(harness.pipeline, [table], progress=harness.lines.append)
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert "--table bank.items" in paused.reason
