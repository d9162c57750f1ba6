"""Rules on columns and rows through the flows: what snapshots, histories, statements and the ledger hold of a filtered table."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dts_assets.flows import snapshot_jobs
from dts_assets.flows.pauses import resume_tables
from dts_assets.model.spans import Span
from dts_assets.wire.dts_protobuf import row_changes
from tests.flows.harness import Bench, Harness, refresh, settle_open, table_id
from tests.flows.history import WINDOWS, History, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, insert, item, items, open_short, short_source
from tests.flows.source import Contents, Dml, write_capture
from tests.flows.source_tables import ABSENT, DATE, INT, TEXT, Field, Row, Table
from tests.flows.test_live import content, pieces, with_an_end
from tests.tiers import times

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = "a key that nobody guesses"
COLUMNS: dict[str, Any] = {
    "bank.accounts.owner": {"hash": {"key": KEY}},
    "bank.seats.hall": {"hash": {"key": KEY}},
    "bank.goods.g": {"tokenize": {"key": KEY, "pattern": "茶|te", "keep_last": 1}},
    "bank.goods.b": {"mask": "***"},
    "bank.goods.x": {"hash": {"key": KEY}},
    "bank.goods.j": "drop",
    "bank.journal.line": {"mask": "line"},
}
ROWS = {
    "bank.accounts": "balance >= 0",
    "bank.goods": "NOT (d < -100000.5) AND (j LIKE '%1%' OR m BETWEEN -500 AND 500 OR j IS NULL)",
    "bank.seats": "seat <> 3",
}


def sealed(value: bytes) -> str:
    return hmac.digest(KEY.encode(), value, "sha256").hex()


def token(found: re.Match[str]) -> str:
    match = found.group()
    return f"tok_{sealed(match.encode())[:32]}" + (match[-1:] if len(match) > 1 else "")


CHANGED: Mapping[tuple[str, str], Callable[[Any], str]] = {
    ("accounts", "owner"): lambda value: sealed(value.encode()),
    ("seats", "hall"): lambda value: sealed(value.encode()),
    ("goods", "g"): lambda value: re.sub("茶|te", token, value),
    ("goods", "b"): lambda value: "***",
    ("goods", "x"): sealed,
    ("journal", "line"): lambda value: "line",
}


def wanted(name: str, row: Row) -> bool:
    """The filters once more, in Python."""
    if name == "accounts":
        return row["balance"] is not None and row["balance"] >= 0
    if name == "seats":
        return bool(row["seat"] != 3)
    if name == "goods":
        low = None if row["d"] is None else row["d"] < -100000.5
        cheap = None if row["m"] is None else Decimal(-500) <= row["m"] <= 500
        return low is False and bool(row["j"] is None or "1" in row["j"] or cheap)
    return True


def ruled(name: str, row: Row) -> Row:
    made = {}
    for column, value in row.items():
        change = CHANGED.get((name, column))
        if (name, column) != ("goods", "j"):
            made[column] = value if value is None or change is None else change(value)
    return made


def ruled_contents(contents: Contents, tables: Mapping[str, Any]) -> Contents:
    found: Contents = {}
    for name, rows in contents.items():
        kept = [ruled(name, row) for row in rows.values() if wanted(name, row)]
        found[name] = {tables[name].key(row): row for row in kept}
    return found


def stored(harness: Harness, tables: Mapping[str, Any]) -> Contents:
    """The snapshots; the model asks for a column that was dropped, and is told None."""
    found = harness.snapshots(tables)
    assert {row["j"] for row in found["goods"].values()} <= {None}
    found["goods"] = {
        key: {name: value for name, value in row.items() if name != "j"} for key, row in found["goods"].items()
    }
    return found


@pytest.fixture
def bench_of(tmp_path: Path) -> Bench:
    return bench_in_process(tmp_path, "rules")


@pytest.mark.more
def test_snapshots_show_the_rows_that_pass_as_the_rules_make_them(
    bench_of: Bench, bank: History, bank_capture: Path
) -> None:
    harness = bench_of.open(bank_capture, columns=COLUMNS, rows=ROWS)
    for number in range(WINDOWS):
        harness.all(number)
        assert stored(harness, bank.source.tables) == ruled_contents(bank.after(number), bank.source.tables)
    everything = ruled_contents(bank.final(), bank.source.tables)
    assert all(len(rows) > 0 for rows in everything.values())
    counts = harness.rows("window_tables")
    assert all(
        row["changes"] == row["kept"] + row["filtered"] + row["redelivered"] + row["quarantined"] for row in counts
    )
    assert {row["table"] for row in counts if row["filtered"]} == {"accounts", "goods", "seats"}


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_the_order_of_windows_does_not_matter(
    seed: int, bench_of: Bench, bank: History, bank_capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, random = bench_of.open(bank_capture, columns=COLUMNS, rows=ROWS, history=["*"]), Random(seed)
    monkeypatch.setattr(snapshot_jobs, "SHARE_ROWS", random.choice([2, 7, 500_000]))
    harness.work_at_random(random, times(5, 9))
    harness.settle()
    assert stored(harness, bank.source.tables) == ruled_contents(bank.final(), bank.source.tables)
    before = harness.everything()
    harness.all(*sorted(random.sample(range(WINDOWS), 2)))
    harness.settle()
    assert {
        name: rows for name, rows in harness.everything().items() if name.startswith(("snap", "hist", "change"))
    } == {name: rows for name, rows in before.items() if name.startswith(("snap", "hist", "change"))}


AS_SENT = {"raw_envelopes", "entries"}
"""The tables that hold messages as they were sent, as the documents say."""


def typed_bytes(harness: Harness) -> dict[str, bytes]:
    """The content of all files but those of raw and entries, and the rows of all other tables as text, by name."""
    pipeline = harness.pipeline
    folders = (Path(pipeline.lake.location.warehouse), pipeline.settings.registry_path.parent)
    files = [one for folder in folders for one in folder.rglob("*") if one.is_file() and not AS_SENT & set(one.parts)]
    rows = {name: "\n".join(some).encode() for name, some in harness.everything().items() if name not in AS_SENT}
    return {**{str(one): one.read_bytes() for one in files}, **rows}


@pytest.mark.more
def test_no_typed_table_holds_a_value_or_a_key(bench_of: Bench, tmp_path: Path) -> None:
    """Plain text is looked for in all files but raw and entries, and in all rows; a value that does not fit is one of them."""
    table = Table(
        "items", [Field("id", INT, True), *(Field(name, TEXT) for name in ("a", "b", "c", "d")), Field("e", DATE)]
    )
    source = short_source(table)
    row = {name: f"plain-{name}-4444333322221111" for name in "abcd"}
    source.transaction(border(0) + SECOND, Dml(table, [(None, {"id": 1, **row, "e": "0000-00-00"})]))
    source.transaction(
        border(0) + 2 * SECOND, Dml(table, [({"id": 1, **row, "e": "0000-00-00"}, {"id": 2, **row, "e": "0000-00-00"})])
    )
    source.checkpoint(border(0) + 500 * SECOND)
    columns = {
        "bank.items.a": "drop",
        "*.B": {"hash": {"key": KEY}},
        "bank.items.c": {"mask": "***"},
        "bank.it*.[de]": {"tokenize": {"key": KEY, "pattern": "plain-d-[0-9]+"}},
    }
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=1, columns=columns, history=["*"],
        sql={"tables": ["*"]}, deletes="soft",
    )  # fmt: skip
    harness.all()
    (shown,) = [one for one in harness.rows("snapshot", "bank", "items") if one["_deleted_at"] is None]
    assert shown["b"] == sealed(b"plain-b-4444333322221111")
    assert shown["c"] == "***"
    assert re.fullmatch("tok_[0-9a-f]{32}", shown["d"])
    assert shown["e"] == "0000-00-00"  # read as text, and the pattern does not match it
    assert "a" not in shown
    assert any("plain-" in str(one["payload"]) for one in harness.rows("entries"))
    found = typed_bytes(harness)
    assert len(found) > 30
    for secret in (b"plain-", b"4444333322221111", KEY.encode()):
        assert [name for name, content in found.items() if secret in content] == []
    assert KEY not in repr(harness.pipeline.settings) + harness.pipeline.settings.model_dump_json()


@pytest.mark.more
def test_a_key_that_changes_makes_all_windows_again(bench_of: Bench, bank_capture: Path) -> None:
    harness = bench_of.open(bank_capture, name="rotated", columns=COLUMNS)
    harness.all()
    before = {row["owner"] for row in harness.rows("snapshot", "bank", "accounts")}
    columns = {**COLUMNS, "bank.accounts.owner": {"hash": {"key": KEY + "!"}}}
    again = bench_of.open(bank_capture, name="rotated", columns=columns)
    assert again.settle()
    after = {row["owner"] for row in again.rows("snapshot", "bank", "accounts")}
    assert before & after <= {None}
    assert len(before) == len(after)


@pytest.mark.more
def test_a_rule_that_comes_later_holds_for_all_rows(bench_of: Bench, bank: History, bank_capture: Path) -> None:
    """Texts become other texts, a dropped column stays empty where it was stored before, and rows that do not pass go."""
    bench_of.open(bank_capture, name="later").all()
    texts = {glob: rule for glob, rule in COLUMNS.items() if glob not in ("bank.goods.b", "bank.goods.x")}
    harness = bench_of.open(bank_capture, name="later", columns=texts, rows=ROWS)
    assert harness.settle()
    expected = ruled_contents(bank.final(), bank.source.tables)
    found = stored(harness, bank.source.tables)
    for name in ("accounts", "seats"):
        assert found[name] == expected[name]
    assert found["goods"].keys() == expected["goods"].keys()


@pytest.mark.more
def test_a_table_whose_rules_cannot_be_kept_stands_still_alone(
    bench_of: Bench, bank: History, bank_capture: Path
) -> None:
    rules: dict[str, Any] = {"bank.seats.hall": {"mask": "hall"}}
    rows = {"bank.goods": "added = 'x'", "bank.journal": "no_such = 1", "bank.accounts": "owner = 5"}
    harness = bench_of.open(bank_capture, columns=rules, rows=rows)
    harness.all()
    reasons = {row.table.table: row.reason for row in harness.pipeline.ledger.paused_tables()}
    assert reasons.keys() == {"seats", "goods", "journal", "accounts"}
    for name, words in {
        "seats": "the rule mask is on hall, a column of its primary key",
        "goods": "lack added, which its row filter needs",
        "journal": "names no_such, and no column is called so",
        "accounts": "owner, which is string, and is compared with something else than a text in quotes",
    }.items():
        assert words in reasons[name]
    mended = bench_of.open(
        bank_capture, name=harness.pipeline.name, columns={"bank.seats.hall": {"hash": {"key": KEY}}}
    )
    resume_tables(mended.pipeline, [table_id(name) for name in reasons])
    mended.settle()
    assert mended.snapshots({"goods": bank.source.tables["goods"]}) == {"goods": bank.final()["goods"]}


def test_a_change_that_nobody_can_judge_lets_its_table_stand_still(bench_of: Bench, tmp_path: Path) -> None:
    source = short_source(items(), items("others"))
    for name in ("items", "others"):
        insert(source, border(0) + SECOND, range(5), table=name)
    table, partial = source.tables["items"], {"id": 1, "n": ABSENT, "note": ABSENT}
    source.transaction(border(0) + 9 * SECOND, Dml(table, [(partial, {**partial, "note": "n"})]))
    source.checkpoint(border(0) + 500 * SECOND)
    rules: dict[str, Any] = {
        "rows": {"*": "n = 0"},
        "columns": {"bank.items.n": "drop"},
    }  # no row that stands has the column
    harness = open_short(bench_of, tmp_path / "capture", source.messages, windows=1, **rules)
    harness.all()
    (paused,) = harness.pipeline.ledger.paused_tables()
    assert paused.table == table_id("items")
    assert "an image lacks a column of its row filter" in paused.reason
    assert len(harness.rows("snapshot", "bank", "others")) == 5
    assert harness.rows("changelog", "bank", "items") == []


def test_an_entry_that_cannot_be_decoded_leaves_no_payload_where_rules_are(bench_of: Bench, tmp_path: Path) -> None:
    """Entries have the payload of every message; a table with rules has no second copy of it in quarantine."""
    source = short_source(items(), items("others"))
    for name in ("items", "others"):
        insert(source, border(0) + SECOND, range(2), table=name)
        source.transaction(border(0) + 2 * SECOND, Dml(source.tables[name], [(None, item(7))]))
    source.checkpoint(border(0) + 500 * SECOND)
    harness = open_short(
        bench_of, tmp_path / "capture", source.messages, windows=1, columns={"bank.items.note": {"mask": "x"}},
        format="dts-protobuf",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "_ragged", lambda found, owners, widths: owners % 2 == 0)
        harness.all()
    lost = {row["detail"].partition(":")[0]: len(row["payload"]) for row in harness.rows("quarantine")}
    assert lost["bank.items"] == 0
    assert lost["bank.others"] > 0


@pytest.mark.more
def test_statements_of_ruled_columns_are_texts(bench_of: Bench, bank_capture: Path) -> None:
    """A masked number and a hashed blob are written in quotes, and a dropped column is in no statement."""
    harness = bench_of.open(bank_capture, columns=COLUMNS, rows=ROWS, sql={"tables": ["*"]})
    harness.all()
    statements = [row["statement"] for row in harness.rows("sql", "bank", "goods")]
    inserts = [one for one in statements if one.startswith("INSERT")]
    assert sum("'***'" in one for one in inserts) > 5
    assert all("***" not in one.replace("'***'", "") for one in statements)
    assert not any("`j`" in one for one in statements)
    assert not any(re.search("(?<!['0-9a-f])[0-9a-f]{64}", one) for one in statements)


@pytest.mark.more
def test_a_topic_followed_in_pieces_is_ruled_as_if_read_at_once(bench_of: Bench, bank: History, tmp_path: Path) -> None:
    """Open windows are appended to and compared; what a filter leaves out of them is counted once."""
    sent = with_an_end(bank)
    rules: dict[str, Any] = {"columns": COLUMNS, "rows": ROWS}
    closed = bench_of.open(write_capture(tmp_path / "whole", sent), complete=False, **rules)
    closed.settle()
    harness = bench_of.open(tmp_path / "pieces", complete=False, window={"live": True}, **rules)
    for number, some in enumerate(pieces(sent, Random(3), times(3, 9))):
        write_capture(tmp_path / "pieces", some, name=f"piece{number}")
        refresh(harness)
    settle_open(harness, rounds=10)
    expected, found = content(closed), content(harness)
    assert {row["filtered"] for row in closed.rows("window_tables")} > {0}
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.mark.more
def test_a_rule_that_names_no_column_is_said(bench_of: Bench, bank_capture: Path) -> None:
    columns = {"bank.accounts.ownr": "drop", "bank.accounts.Owner": "drop", "bank.later.x": "drop", "*.no_*": "drop"}
    harness = bench_of.open(bank_capture, columns=columns)
    harness.all()
    assert [one for one in harness.lines if "matches nothing" in one] == [
        "settings: columns: bank.accounts.ownr matches nothing; did you mean bank.accounts.owner?",
        "settings: columns: bank.later.x matches nothing",
        "settings: columns: *.no_* matches nothing",
    ]


@pytest.mark.more
def test_old_images_of_the_key_alone_are_enough(bench_of: Bench, tmp_path: Path) -> None:
    source = short_source(items())
    table = source.tables["items"]
    insert(source, border(0) + SECOND, range(4), n=0)  # outside of the filter
    insert(source, border(0) + 2 * SECOND, range(4, 9), n=1)

    def old(number: int) -> Row:
        return {"id": number, "n": ABSENT, "note": ABSENT}

    changes = [
        (old(1), None),  # deleted outside
        (old(5), None),
        (old(6), item(6, 0, "leaves")),
        (old(2), item(2, 1, "comes")),
        (old(3), item(33, 1, "comes and moves")),
        (old(0), item(44, 0, "moves outside")),
        (old(7), item(77, 1, "moves inside")),
    ]
    for number, pair in enumerate(changes):
        source.transaction(border(0) + (number + 3) * SECOND, Dml(table, [pair]))
    source.checkpoint(border(0) + 500 * SECOND)
    found = {}
    for deletes in ("hard", "soft"):
        harness = open_short(
            bench_of, tmp_path / deletes, source.messages, windows=1, rows={"*": "n = 1"}, deletes=deletes
        )  # fmt: skip
        harness.all()
        assert not harness.pipeline.ledger.paused_tables()
        found[deletes] = harness.rows("snapshot", "bank", "items")
    live = {2, 33, 4, 77, 8}
    assert {row["id"] for row in found["hard"]} == live
    assert {row["id"] for row in found["soft"] if row["_deleted_at"] is None} == live
    # Rows that never passed are no deleted ones, though the changelog says that they go.
    gone = {row["id"]: (row["n"], row["note"]) for row in found["soft"] if row["_deleted_at"] is not None}
    assert gone == {5: (1, None), 6: (1, None), 7: (1, None)}


@pytest.mark.long
def test_a_real_server_has_the_rows_that_pass(bench_of: Bench) -> None:
    """The example comes from a MariaDB, whose rows at the end are filtered by DuckDB."""
    filters = {
        "customers": "status IN ('active', 'new') AND (birthday < '1990-01-01' OR birthday IS NULL) AND NOT email LIKE '%1%'",
        "orders": "currency = 'EUR' OR total BETWEEN 100 AND 1500.5",
        "order_items": "NOT (quantity > 3)",
        "products": "title LIKE '%a%' AND price < 1000",
        "payments": "amount > 99.995 AND method <> 'card'",
    }
    numbers = {"total": "DECIMAL(14,2)", "quantity": "INT", "price": "DECIMAL(20,4)", "amount": "DECIMAL(20,4)"}
    start = datetime(2026, 1, 5, tzinfo=UTC)
    window = {"every": timedelta(hours=1), "start": start, "end": start + timedelta(hours=8)}
    rows = {f"shopdb.{name}": text for name, text in filters.items()}
    harness = bench_of.open(EXAMPLES / "shop", partitions=4, window=window, rows=rows)
    windows = tuple(harness.pipeline.grid.at(number) for number in range(8))
    harness.raw_of(Span((0, 1, 2, 3), windows))
    harness.entries_of(Span((0, 1, 2, 3), windows))
    harness.tables_of(windows)
    for name, text in filters.items():
        typed = re.sub("|".join(numbers), lambda found: f"{found.group()}::{numbers[found.group()]}", text)
        file = EXAMPLES / "shop.expected" / f"shopdb.{name}.parquet"
        (expected,) = duckdb.execute(f"SELECT count(*), count(DISTINCT t) FROM '{file}' t WHERE {typed}").fetchall()
        everything = duckdb.execute(f"SELECT count(*) FROM '{file}'").fetchall()[0][0]
        found = harness.rows("snapshot", "shopdb", name)
        assert 0 < len(found) < everything
        assert (len(found), len({str(row) for row in found})) == expected


@pytest.mark.more
@pytest.mark.spark
def test_tasks_of_spark_get_the_rules(bench: Bench, bank: History, bank_capture: Path) -> None:
    """In this process as all others here, and by a session of Spark in ``make test-all``."""
    harness = bench.open(bank_capture, columns=COLUMNS, rows=ROWS)
    harness.all()
    assert stored(harness, bank.source.tables) == ruled_contents(bank.final(), bank.source.tables)
