"""Row filters on a real MariaDB that sends minimal row images: the snapshot has the rows that the server itself finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.dts_emulator.followed_scripts import recorded_script
from tests.dts_emulator.recorded_lakes import recorded
from tests.dts_emulator.server_lives import FIRST, HOUR, LifeRecorder, life_recorder
from tests.flows.harness import Harness
from tests.tiers import chosen, times

pytestmark = [pytest.mark.database, pytest.mark.more]

FILTER = "status <> 'draft'"
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(9) DEFAULT 'new', n INT, note VARCHAR(9) DEFAULT 'none')"
STATUSES = ("'draft'", "'draft'", "'paid'", "'sent'", "NULL")


@pytest.fixture(scope="module")
def recorder() -> Iterator[LifeRecorder]:
    with life_recorder() as found:
        yield found


def statement(random: Random) -> str:
    """What an application does next."""
    status, n, note = random.choice(STATUSES), random.randrange(9), random.choice("abc")
    one, other = random.randrange(12), random.randrange(12)
    return random.choice(
        [
            f"INSERT IGNORE INTO t VALUES ({one}, {status}, {n}, '{note}')",
            f"INSERT IGNORE INTO t (id, status) VALUES ({one}, {status}), ({other}, {status})",
            f"INSERT IGNORE INTO t (id, n) VALUES ({one}, {n})",
            f"REPLACE INTO t VALUES ({one}, {status}, {n}, '{note}')",
            f"INSERT INTO t VALUES ({one}, {status}, {n}, '{note}') ON DUPLICATE KEY UPDATE n = {n}",
            f"UPDATE t SET status = {status} WHERE id = {one}",
            f"UPDATE t SET status = {status}, n = {n} WHERE id IN ({one}, {other})",
            f"UPDATE t SET n = {n} WHERE id > {one}",
            f"UPDATE t SET note = '{note}' WHERE id < {one}",
            f"UPDATE IGNORE t SET id = {other} WHERE id = {one}",
            f"UPDATE IGNORE t SET id = {other}, status = {status} WHERE id = {one}",
            "UPDATE t SET id = id + 1 ORDER BY id DESC",
            f"DELETE FROM t WHERE id = {one} OR id > 14",
        ]
    )


def snapshot(harness: Harness) -> dict[int, tuple[Any, ...]]:
    rows = harness.rows("snapshot", "d", "t")
    return {row["id"]: (row["status"], row["n"], row["note"]) for row in rows}


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 12)))
def test_the_snapshot_has_the_rows_that_the_server_finds(recorder: LifeRecorder, seed: int, tmp_path: Path) -> None:
    """A row that an update brought in has what was sent of it, so some of its values are NULL."""
    random = Random(seed)
    recorder.begin(("d",), image="MINIMAL")
    recorder.say(CREATE)
    for hour in range(1, 5):
        for _ in range(12):
            recorder.wait(1)
            recorder.say(statement(random))
        recorder.go_to(FIRST + hour * HOUR)
    life = recorder.end()
    (held,) = life.moments[-1].tables.values()
    server = {row[0]: row[1:] for row in held.rows if row[1] is not None and row[1] != "draft"}
    found = []
    for name in ("one by one", "all at once"):
        (tmp_path / name).mkdir()
        harness = recorded("dts-protobuf", life.transactions, tmp_path / name, rows={"d.t": FILTER}, history=["d.*"])
        for number in range(4) if name == "one by one" else ():
            harness.all(number)
        harness.settle()
        assert not harness.pipeline.ledger.paused_tables()
        found.append(snapshot(harness))
    assert found[0] == found[1]
    assert found[0].keys() == server.keys(), life.script()
    assert len(server) > 1
    whole = [key for key, row in found[0].items() if row == server[key]]
    assert whole
    for key, row in found[0].items():
        assert row[0] == server[key][0]
        assert all(mine in (value, None) for mine, value in zip(row, server[key], strict=True)), (key, life.script())


RENAMED = (
    CREATE.replace("TABLE t", "TABLE u"), "INSERT INTO u VALUES (1, 'paid', 1, 'a'), (2, 'draft', 2, 'b'), (3, 'draft', 3, 'c')",
    "UPDATE u SET n = 5 WHERE id < 3", 1, "RENAME TABLE u TO t", "UPDATE t SET n = 6 WHERE id = 1", 2,
    "UPDATE t SET n = 7 WHERE id < 3",
)  # fmt: skip


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("rows", "ids"),
    chosen(
        [
            pytest.param({"d.*": FILTER}, {1}, id="the same filter before"),
            pytest.param({"d.t": FILTER, "d.u": "n > 0"}, None, id="another filter before"),
            pytest.param({"d.t": FILTER}, {1, 3}, id="no filter before"),
        ],
        2,
    ),
)
def test_rows_of_a_renamed_table_are_judged_from_then_on(
    recorder: LifeRecorder, rows: dict[str, str], ids: set[int] | None, tmp_path: Path
) -> None:
    """Changes under the other name were judged by its filter, if it had one. A row that none concerned stands as it came."""
    life = recorded_script(recorder, RENAMED, image="MINIMAL")
    for name in ("at once", "window by window"):
        (tmp_path / name).mkdir()
        harness = recorded("dts-protobuf", life.transactions, tmp_path / name, rows=rows, history=["d.*"])
        for number in range(3) if name == "window by window" else ():
            harness.all(number)
        harness.settle()
        paused = harness.pipeline.ledger.paused_tables()
        if ids is None:
            assert ["came from another table" in one.reason for one in paused] == [True]
        else:
            assert not paused
            versions = [row for row in harness.rows("history", "d", "t") if row["_valid_to"] is None]
            assert {row["id"]: (row["status"], row["n"], row["note"]) for row in versions} == snapshot(harness)
            assert snapshot(harness) == {one: ("paid", 7, "a") if one == 1 else ("draft", 3, "c") for one in ids}
