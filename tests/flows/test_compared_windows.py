"""An open window that cannot just be appended to is made whole, and each table whose rows came out equal keeps its files.

A statement that is told again, a table that a statement before empties, a table that was resumed: each concerns few tables, and
the snapshots of all others go on from where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dts_assets.errors.tables import SharedFaultError
from dts_assets.flows import snapshots
from dts_assets.flows.pauses import pause_tables, resume_tables
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.flows.snapshot_merges import merge_rows
from dts_assets.model.ledger_rows import PausedBy, PausedTable
from dts_assets.model.tables import TableId
from dts_assets.store.lake import Lake
from tests.flows.harness import Harness, refresh, settle_open, table_id
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.interleaved import Killed
from tests.flows.short import SECOND, delete, insert, items, move, open_short, short_source, update
from tests.flows.source import DATABASE, Ddl, Message, Source, write_capture
from tests.flows.test_paused_tables import broken, of_layer
from tests.tiers import chosen, times

ONE, TWO = table_id("one"), table_id("two")
LIVE = {"live": True, "end": None}
BOTH = (items("one"), items("two"))
STEPS = times(4, 8)


def opened(folder: Path) -> Harness:
    return open_short(bench_in_process(folder, "compared"), folder / "capture", [], complete=False, window=LIVE)


def files(harness: Harness, table: TableId) -> set[str]:
    return {one.path for one in harness.pipeline.lake.data_files(harness.pipeline.table_path("changelog", table))}


@contextmanager
def computed_again() -> Iterator[set[TableId]]:
    """The tables whose snapshots compute keys again, or all rows."""
    found: set[TableId] = set()

    def noted(pipeline: Any, layer: Any, jobs: Sequence[SnapshotJob], *rest: Any) -> Any:
        found.update(job.table for job in jobs if job.plan.recomputes or job.plan.rebuilds)
        return merge_rows(pipeline, layer, jobs, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "merge_rows", noted)
        yield found


def two_tables_with_rows() -> Source:
    source = short_source(*BOTH)
    for name in source.tables:
        insert(source, border(0) + 10 * SECOND, range(10), table=name)
    source.checkpoint(border(0) + 20 * SECOND)
    return source


def send(harness: Harness, source: Source, folder: Path, sent: int, messages: Sequence[Message] | None = None) -> int:
    write_capture(folder / "capture", source.messages[sent:] if messages is None else messages, name=f"from{sent}")
    settle_open(harness, rounds=6)
    return len(source.messages)


def pause(harness: Harness, table: TableId, second: int) -> None:
    since = datetime(2026, 1, 7, 0, 0, second, tzinfo=UTC)
    pause_tables(harness.pipeline, [PausedTable(table, "", "words", PausedBy.PERSON, since)])


@pytest.mark.more
def test_a_table_that_is_resumed_in_an_open_window_is_made_again_alone(tmp_path: Path) -> None:
    harness, source = opened(tmp_path), two_tables_with_rows()
    sent = send(harness, source, tmp_path, 0)
    pause(harness, TWO, 1)
    for name in source.tables:
        update(source, border(0) + 30 * SECOND, {1: 1, 2: 2}, table=name)
    source.checkpoint(border(0) + 40 * SECOND)
    sent = send(harness, source, tmp_path, sent)
    before, replaced = files(harness, ONE), files(harness, TWO)
    resume_tables(harness.pipeline, [TWO])
    for name in source.tables:
        delete(source, border(0) + 50 * SECOND, (3,), table=name)
    source.checkpoint(border(0) + 60 * SECOND)
    with computed_again() as found:
        send(harness, source, tmp_path, sent)
    assert found == {TWO}
    assert before < files(harness, ONE)
    assert not replaced & files(harness, TWO)
    assert harness.snapshots(source.tables) == source.rows
    (mark,) = harness.pipeline.ledger.cuts()
    assert (len(mark.made_by), mark.paused) == (3, ())


@pytest.mark.more
def test_a_statement_behind_the_stored_rows_makes_nothing_again(tmp_path: Path) -> None:
    harness, source = opened(tmp_path), two_tables_with_rows()
    sent = send(harness, source, tmp_path, 0)
    for number, sql in enumerate(("CREATE VIEW v AS SELECT 1", "CREATE TABLE three (id int)", "TRUNCATE TABLE one")):
        at, before = border(0) + (30 + 20 * number) * SECOND, files(harness, TWO)
        source.transaction(at, Ddl(sql))
        if sql.startswith("TRUNCATE"):
            source.rows["one"].clear()
        update(source, at + SECOND, {4: number}, table="two")
        source.checkpoint(at + 10 * SECOND)
        with computed_again() as found:
            sent = send(harness, source, tmp_path, sent)
        assert found == ({ONE} if sql.startswith("TRUNCATE") else set())
        assert before < files(harness, TWO)
        assert harness.snapshots(source.tables) == source.rows
    assert len(harness.pipeline.ledger.cuts()[0].made_by) == 4


@pytest.mark.more
def test_a_copy_that_comes_before_a_statement_makes_the_table_that_it_empties_again(tmp_path: Path) -> None:
    """The copy in Kafka partition 0 comes last and counts, so the row of the other one must go."""
    harness, source = opened(tmp_path), two_tables_with_rows()
    sent = send(harness, source, tmp_path, 0)
    source.transaction(border(0) + 30 * SECOND, Ddl("TRUNCATE TABLE one"))
    source.rows["one"].clear()
    late = [one for one in source.messages[sent:] if one.partition == 0]
    sent = send(harness, source, tmp_path, sent, [one for one in source.messages[sent:] if one.partition == 1])
    assert [row["kafka_partition"] for row in harness.rows("ddl")] == [1]
    before = files(harness, ONE), files(harness, TWO)
    update(source, border(0) + 31 * SECOND, {4: 4}, table="two")
    source.checkpoint(border(0) + 40 * SECOND)
    with computed_again() as found:
        send(harness, source, tmp_path, sent, [*late, *source.messages[sent:]])
    assert found == {ONE}
    assert not before[0] & files(harness, ONE)
    assert before[1] < files(harness, TWO)
    assert [row["kafka_partition"] for row in harness.rows("ddl")] == [0]
    truncations = [row for row in harness.rows("changelog", DATABASE, "one") if row["op"] == "truncate"]
    assert [row["kafka_partition"] for row in truncations] == [0]
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
@pytest.mark.parametrize("place", chosen(["snapshot", "changelog"], 1))
def test_a_table_that_fails_while_it_is_made_again_is_made_again_once_more(place: str, tmp_path: Path) -> None:
    harness, source = opened(tmp_path), two_tables_with_rows()
    sent = send(harness, source, tmp_path, 0)
    pause(harness, TWO, 1)
    update(source, border(0) + 30 * SECOND, {1: 1}, table="one")
    delete(source, border(0) + 31 * SECOND, (1,), table="two")
    source.checkpoint(border(0) + 40 * SECOND)
    sent = send(harness, source, tmp_path, sent)
    for _ in range(2):
        resume_tables(harness.pipeline, [TWO])
        with broken(Lake, "replace", of_layer(place, "two")):
            settle_open(harness, rounds=6)
        assert [row.table for row in harness.pipeline.ledger.paused_tables()] == [TWO]
    resume_tables(harness.pipeline, [TWO])
    with computed_again() as found:
        settle_open(harness, rounds=6)
    assert found <= {TWO}
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
def test_a_window_that_a_person_makes_again_gets_new_files_though_it_was_open_once(tmp_path: Path) -> None:
    """A file may be lost, and the ledger cannot see that."""
    harness, source, sent = opened(tmp_path), two_tables_with_rows(), 0
    for number in range(3):
        sent = send(harness, source, tmp_path, sent)
        insert(source, border(number) + 300 * SECOND, range(100 + 10 * number, 110 + 10 * number), table="one")
        source.checkpoint(border(number) + 310 * SECOND)
    sent = send(harness, source, tmp_path, sent)
    (first, *_) = harness.pipeline.ledger.cuts()
    assert (bool(first.made_by), first.open_in) == (True, ())
    before = files(harness, ONE)
    harness.tables(0)
    assert before - files(harness, ONE)
    assert harness.snapshots(source.tables) == source.rows


@pytest.mark.more
@pytest.mark.parametrize("seed", range(times(1, 16)))
def test_whatever_happens_all_rows_are_those_of_a_topic_read_at_once(seed: int, tmp_path: Path) -> None:
    """Statements whose copies come at different times, pauses, failures and ends of the process, in any order."""
    chance = Random(seed)
    harness, source, at = opened(tmp_path / "grows"), short_source(*BOTH), border(0)
    sent, held = 0, dict[int, list[Message]]()
    for step in range(STEPS):
        at = _acts(source, chance, at + SECOND)
        for one in source.messages[sent:]:
            held.setdefault(one.partition, []).append(one)
        sent, some = len(source.messages), list[Message]()
        for partition, waiting in held.items():
            count = len(waiting) if chance.random() < 0.6 or step == STEPS - 1 else chance.randint(0, len(waiting))
            some += waiting[:count]
            held[partition] = waiting[count:]
        for folder in ("grows", "at_once"):
            write_capture(tmp_path / folder / "capture", some, name=f"step{step}")
        _disturbed(harness, chance, step)
        settle_open(harness, rounds=6)
        if step < STEPS - 1 and chance.random() < 0.6:
            continue
        still = {str(row.table) for row in harness.pipeline.ledger.paused_tables()}
        reference = bench_in_process(tmp_path / "at_once", f"step{step}")
        whole = open_short(reference, tmp_path / "at_once" / "capture", [], complete=False, window=LIVE)
        settle_open(whole, rounds=6)
        assert _rows(harness, still) == _rows(whole, still), step


def _acts(source: Source, chance: Random, at: datetime) -> datetime:
    """Some transactions and statements, a second after each other; some of the copies of one wait for more."""
    for _ in range(chance.randint(1, 5)):
        at, name = at + SECOND, chance.choice(["one", "two"])
        keys = sorted(key for (key,) in source.rows[name])
        free = [number for number in range(30) if number not in keys]
        acts: list[Callable[[], object]] = [partial(insert, source, at, chance.sample(free, 3), table=name)]
        if keys:
            acts += [
                partial(update, source, at, {chance.choice(keys): chance.randint(0, 99)}, table=name),
                partial(delete, source, at, [chance.choice(keys)], table=name),
                partial(move, source, at, {chance.choice(keys): chance.choice(free)}, table=name),
            ]
        if chance.random() < 0.3:
            sql = chance.choice([f"TRUNCATE TABLE {name}", f"CREATE INDEX i ON {name} (n)", "CREATE TABLE x (id int)"])
            source.transaction(at, Ddl(sql), flush=chance.random() < 0.5)
            if sql.startswith("TRUNCATE"):
                source.rows[name].clear()
        else:
            chance.choice(acts)()
    if chance.random() < 0.7:
        at += SECOND
        source.checkpoint(at)
    return at


def _disturbed(harness: Harness, chance: Random, step: int) -> None:
    """A pause, a resumption, a table that fails, or a run that ends in the middle."""
    name = chance.choice(["one", "two"])
    places: Mapping[str, tuple[Any, str, Callable[..., bool]]] = {
        "changelog": (Lake, "replace", of_layer("changelog", name)),
        "snapshot": (Lake, "replace", of_layer("snapshot", name)),
    }
    act = chance.choice(["nothing", "nothing", "pause", "resume", "resume", "fails", "killed"])
    if act == "pause" and not harness.pipeline.ledger.paused_tables():
        pause(harness, table_id(name), step)
    if act == "resume":
        resume_tables(harness.pipeline, [row.table for row in harness.pipeline.ledger.paused_tables()])
    error = None if act == "fails" else Killed()
    place = broken(*places[chance.choice(sorted(places))], error) if act in ("fails", "killed") else nullcontext()
    with suppress(Killed, SharedFaultError), place:
        refresh(harness)


def _rows(harness: Harness, still: set[str]) -> dict[str, list[str]]:
    """Rows of all tables that did not stand still, and those that belong to no table."""
    names = ("changelog", "snapshot", "ddl", "quarantine", "redeliveries")
    return {
        name: rows
        for name, rows in harness.everything(without=("run", "generation")).items()
        if name.startswith(names) and name.partition(".")[2] not in still
    }
