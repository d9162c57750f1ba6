"""Tables with a UNIQUE key alone on a real MariaDB that sends minimal row images: snapshots are the server's rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.model.problems import Completeness
from dts_emulator.messages.capture_files import write_capture
from dts_emulator.messages.message import Message
from dts_emulator.tasks.vendor_tasks import VENDOR_TASKS
from tests.dts_emulator.followed_scripts import recorded_script
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import FIRST, HOUR, LifeRecorder, life_recorder
from tests.flows.harness import Harness
from tests.flows.in_process import bench_in_process
from tests.tiers import chosen, times

pytestmark = pytest.mark.database

CREATE = "CREATE TABLE t (word VARCHAR(9), k INT NOT NULL, part CHAR(1) NOT NULL, n INT DEFAULT 3, UNIQUE (k, part))"


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def statement(random: Random) -> str:
    """What an application does next."""
    word, n, part = random.choice(["'a'", "'b'", "NULL"]), random.choice(["1", "2", "NULL"]), random.choice("xy")
    one, other = random.randrange(9), random.randrange(9)
    return random.choice(
        [
            f"INSERT IGNORE INTO t VALUES ({word}, {one}, '{part}', {n})",
            f"INSERT IGNORE INTO t (k, part) VALUES ({one}, '{part}'), ({other}, '{part}')",
            f"REPLACE INTO t VALUES ({word}, {one}, '{part}', {n}), ({word}, {other}, '{part}', {n})",
            f"INSERT INTO t VALUES ({word}, {one}, '{part}', {n}) ON DUPLICATE KEY UPDATE n = {n}",
            f"UPDATE t SET word = {word} WHERE k = {one}",
            f"UPDATE t SET n = {n}, word = {word} WHERE k > {one}",
            f"UPDATE IGNORE t SET k = {other}, n = {n} WHERE k = {one}",
            "UPDATE t SET k = k + 1 ORDER BY k DESC",
            f"DELETE FROM t WHERE k = {one} OR k > 12",
        ]
    )


def rows(harness: Harness) -> Counter[tuple[Any, ...]]:
    return Counter((row["word"], row["k"], row["part"], row["n"]) for row in harness.rows("snapshot", "d", "t"))


def assert_open_versions(harness: Harness, server: Counter[tuple[Any, ...]]) -> None:
    """A history has NULL for what an INSERT did not send, so some of its values are NULL."""
    found = [row for row in harness.rows("history", "d", "t") if row["_valid_to"] is None]
    at_server = {(k, part): (word, n) for word, k, part, n in server}
    assert Counter((row["k"], row["part"]) for row in found) == Counter(dict.fromkeys(at_server, 1))
    for row in found:
        word, n = at_server[row["k"], row["part"]]
        assert row["word"] in (word, None)
        assert row["n"] in (n, None)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("seed", range(times(2, 12)))
def test_the_snapshot_has_the_rows_of_the_server(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    recorder.begin(("d",), image="MINIMAL")
    recorder.say(CREATE)
    for hour in range(1, 4):
        for _ in range(12):
            recorder.wait(1)
            recorder.say(statement(random))
        recorder.go_to(FIRST + hour * HOUR)
    life = recorder.end()
    (held,) = life.moments[-1].tables.values()
    server = Counter(tuple(one.rstrip() if isinstance(one, str) else one for one in row) for row in held.rows)
    assert len(server) > 2
    for name, order in {"in order": (0, 1, 2), "backwards": (2, 1, 0), "twice": (1, 0, 1, 2)}.items():
        (tmp_path / name).mkdir()
        harness = recorded("dts-protobuf", life.transactions, tmp_path / name, history=["d.*"])
        harness.raw()
        harness.entries()
        for number in order:
            harness.tables(number)
        harness.settle()
        assert rows(harness) == server, life.script()
        assert_open_versions(harness, server)
        assert not harness.pipeline.ledger.quarantine()
        assert all(row.completeness is not Completeness.INCOMPLETE for row in harness.pipeline.ledger.cuts())


STATEMENTS: dict[str, tuple[Any, ...]] = {
    "a column comes with a default": (
        CREATE, "INSERT INTO t VALUES ('a', 1, 'x', 1), ('b', 2, 'x', 2)", 1, "ALTER TABLE t ADD m INT DEFAULT 7",
        "UPDATE t SET word = 'c' WHERE k = 1", 2, "UPDATE t SET m = 8 WHERE k = 2",
    ),
    "the column of the key gets another name and type": (
        CREATE, "INSERT INTO t VALUES ('a', 1, 'x', 1), ('b', 2, 'x', 2)", 1, "ALTER TABLE t CHANGE k ident BIGINT NOT NULL",
        "UPDATE t SET word = 'c' WHERE ident = 1", 2, "DELETE FROM t WHERE ident = 2",
    ),
    "the primary key goes, and comes back": (
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL UNIQUE, n INT)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
        "ALTER TABLE t DROP PRIMARY KEY", "UPDATE t SET n = 5 WHERE k = 1", 1, "UPDATE t SET id = 9 WHERE k = 2", 2,
        "ALTER TABLE t ADD PRIMARY KEY (id)", "UPDATE t SET n = 6 WHERE id = 9",
    ),
    "the table is emptied and gets another name": (
        CREATE, "INSERT INTO t VALUES ('a', 1, 'x', 1)", "TRUNCATE TABLE t", "INSERT INTO t VALUES ('b', 1, 'x', 2)", 1,
        "UPDATE t SET n = 3 WHERE k = 1", "RENAME TABLE t TO u", 2, "UPDATE u SET word = 'd' WHERE k = 1",
    ),
}  # fmt: skip


@pytest.mark.more
@pytest.mark.parametrize("name", chosen(sorted(STATEMENTS), 3))
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_statements_between_changes(recorder: LifeRecorder, name: str, order: tuple[int, ...], tmp_path: Path) -> None:
    life = recorded_script(recorder, STATEMENTS[name], image="MINIMAL")
    harness = recorded("dts-protobuf", life.transactions, tmp_path, history=["d.*"])
    harness.raw()
    harness.entries()
    for number in order:
        harness.tables(number)
    harness.settle()
    ((table, held),) = life.moments[-1].tables.items()
    names = held.schema.names
    found = Counter(tuple(row[one] for one in names) for row in harness.rows("snapshot", "d", table.table))
    assert found == Counter(held.rows)
    assert not harness.pipeline.ledger.quarantine()


def without_null(message: Message) -> Message:
    """A message of Canal whose old rows lack what was NULL."""
    body = json.loads(message.value or b"{}")
    old = [{name: text for name, text in row.items() if text is not None} for row in body.get("old") or ()]
    return replace(message, value=json.dumps(body | {"old": old or None}).encode())


@pytest.mark.more(after=1)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_null_that_canal_leaves_out(recorder: LifeRecorder, order: tuple[int, ...], tmp_path: Path) -> None:
    """Rows have different words or numbers, so that an old row tells which one it was; nothing tells that this is a key."""
    random = Random(5)
    recorder.begin(("d",))
    recorder.say(CREATE.replace(", UNIQUE (k, part)", ""))
    for hour in range(1, 4):
        for number in range(10):
            k, word, n = random.randrange(12), random.choice(["'a'", "NULL"]), random.choice(["1", "NULL"])
            recorder.wait(1)
            recorder.say(f"INSERT INTO t VALUES ({word}, {100 * hour + number}, 'x', {n})")
            recorder.say(f"UPDATE t SET k = k + 1000, n = {n} WHERE k % 12 = {k}")
            recorder.say(f"UPDATE t SET word = {word} WHERE k % 12 = {k} AND k < 1000")
            recorder.say(f"DELETE FROM t WHERE k % 31 = {k}")
        recorder.go_to(FIRST + hour * HOUR)
    life = recorder.end()
    vendor = VENDOR_TASKS["canal-json"]
    messages = [without_null(one) for one in vendor.recording(life.transactions, vendor.options(), 0)]
    assert any(b'"old": [{"k": ' in (one.value or b"") for one in messages)
    write_capture(messages, tmp_path / "capture", topic="one")
    harness = bench_in_process(tmp_path, "canal").open(
        tmp_path / "capture", format="canal-json", partitions=1, source_time_zone="+00:00", tables={"include": ["d.*"]},
        window={"every": HOUR, "start": FIRST, "end": FIRST + 3 * HOUR},
    )  # fmt: skip
    harness.raw()
    harness.entries()
    for number in order:
        harness.tables(number)
    harness.settle()
    (held,) = life.moments[-1].tables.values()
    assert rows(harness) == Counter(held.rows)
    assert not harness.pipeline.ledger.quarantine()
