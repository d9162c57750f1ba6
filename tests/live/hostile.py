"""A hostile workload beside the usual one: names, values and statements that nobody expects, bursts, and a table that breaks.

Its promise: every other table stays as fresh as it usually is, and in the end all snapshots equal the database.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import unquote, urlparse

import pymysql

from dts_assets.flows.pauses import resume_tables
from dts_emulator.live.freshness_meter import Freshness, freshness
from dts_emulator.live.live_stack import DATABASE, WORKLOAD, LiveOptions, LiveStack, live_stack
from tests.live.faults import Fault
from tests.live.soak import CATCH_UP, under_fire, wait_for_first_tables
from tests.live.verdict import catch_up, source_end, wrong
from tests.stateful.hostile import names, quoted

SLOWER: Final = 1.5
"""The most that the 95th percentile of freshness may grow by."""

_USUAL = re.compile(r"[a-z]+_\d\d|checking|savings|burst")
_MOST_TABLES = 6
_BURST_ROWS = 20_000
_BROKEN_EVERY = 300.0
"""Seconds between two times that a table breaks: each time is a pause, a resumption, and windows that catch up."""

_LONGEST_WAIT = 300.0
"""Seconds until a broken table is paused: a refresh may be at work on others, and without a change nobody looks at the table."""

_TYPES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("varchar(80)", ("''", "' '", "x'00'", "'NULL'", r"'\\N'", "'😀👨‍👩‍👧'", "x'EFBBBF'", r"'\r\n'", "REPEAT('𐀀', 80)",
                     r"'${env:HOME}'")),
    ("longtext", ("''", "REPEAT('ab', 30000)", "x'00'")),
    ("longblob", ("''", "x'00FF'", "REPEAT(x'FF', 60000)")),
    ("bigint", ("-9223372036854775808", "9223372036854775807", "0")),
    ("bigint unsigned", ("18446744073709551615", "0")),
    ("decimal(38,10)", ("9999999999999999999999999999.9999999999", "-0.0000000001", "0")),
    ("double", ("1.7976931348623157e308", "-5e-324", "0", "-0e0")),
    ("date", ("'0001-01-01'", "'9999-12-31'", "'1582-10-10'")),
    ("datetime(6)", ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'")),
    ("time(6)", ("'-838:59:59.999999'", "'838:59:59.999999'")),
)  # fmt: skip

_STATEMENTS: Final = (
    "CREATE OR REPLACE VIEW {view} AS SELECT '{long}' AS a",
    "CREATE OR REPLACE VIEW {view} AS SELECT 1 AS a /* {semicolons} */",
    "CREATE OR REPLACE VIEW {view} AS SELECT `TABLE_NAME` FROM information_schema.`TABLES` -- DROP TABLE savings",
    "ALTER TABLE {table} COMMENT '{quotes}'",
    "ANALYZE TABLE {table}",
)


def _run(stack: LiveStack, statements: Iterable[str]) -> bool:
    """Run statements in one transaction; return whether the database has taken them."""
    with stack.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("BEGIN")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("COMMIT")
        except pymysql.err.Error:
            connection.rollback()
            return False
    return True


def _hostile_tables(stack: LiveStack) -> dict[str, list[tuple[str, str]]]:
    """The tables that the usual workload does not know, with names and types of their columns."""
    with stack.server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
        found = [str(row[0]) for row in cursor.fetchall() if not _USUAL.fullmatch(str(row[0]))]
        columns = {}
        for name in sorted(found):
            cursor.execute(f"SHOW COLUMNS FROM {quoted(name)}")
            columns[name] = [(str(row[0]), str(row[1])) for row in cursor.fetchall()]
    return columns


def _value(kind: str, random: Random) -> str:
    name = kind.removesuffix("(20)").replace("(20) ", " ")  # the server shows a width that was not asked for
    known = dict(_TYPES).get(name, ("NULL",))
    return random.choice((*known, "NULL"))


def _rows(name: str, columns: list[tuple[str, str]], random: Random, count: int) -> str:
    rows = [[str(random.randrange(1 << 31)), *(_value(kind, random) for _, kind in columns[1:])] for _ in range(count)]
    return f"REPLACE INTO {quoted(name)} VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)}"


def make_table(stack: LiveStack, random: Random) -> str | None:
    """A table with names that nobody expects, and rows; beyond some tables one of them is dropped."""
    there = _hostile_tables(stack)
    if len(there) >= _MOST_TABLES:
        gone = random.choice(sorted(there))
        return f"{gone!r} was dropped" if _run(stack, [f"DROP TABLE {quoted(gone)}"]) else None
    name, key, *others = names(random, random.randint(4, 8))
    columns = [(one, random.choice(_TYPES)[0]) for one in others]
    told = ", ".join(f"{quoted(one)} {kind}" for one, kind in columns)
    make = f"CREATE TABLE {quoted(name)} ({quoted(key)} BIGINT NOT NULL PRIMARY KEY, {told}) CHARACTER SET utf8mb4"
    made = _run(stack, [make]) and _run(stack, [_rows(name, [(key, "bigint"), *columns], random, 20)])
    return f"{name!r} was made" if made else None


def change_rows(stack: LiveStack, random: Random) -> str | None:
    """Rows with values at their limits in a hostile table."""
    there = _hostile_tables(stack)
    if not there:
        return None
    name = random.choice(sorted(there))
    statements = [_rows(name, there[name], random, random.randint(1, 50))]
    if random.random() < 0.5:
        column, kind = random.choice(there[name][1:])
        statements.append(f"UPDATE {quoted(name)} SET {quoted(column)} = {_value(kind, random)} LIMIT 7")
    if random.random() < 0.3:
        statements.append(f"DELETE FROM {quoted(name)} LIMIT 20")
    return f"{name!r} was changed" if _run(stack, statements) else None


def run_statement(stack: LiveStack, random: Random) -> str | None:
    """A statement that is long, or looks like another one."""
    there = _hostile_tables(stack)
    if not there:
        return None
    name = random.choice(sorted(there))
    facts = {
        "view": quoted(names(random, 1)[0] + "v"), "table": quoted(name), "long": "x" * (1 << 20), "semicolons": ";" * 8000,
        "quotes": "''" * 300,
    }  # fmt: skip
    statement = random.choice(_STATEMENTS).format(**facts)
    return f"{statement[:60]!r} was run" if _run(stack, [statement]) else None


def burst(stack: LiveStack, random: Random) -> str | None:
    """One transaction with as many rows as the usual workload has in a minute."""
    begin = random.randrange(1 << 40) * _BURST_ROWS
    make = "CREATE TABLE IF NOT EXISTS burst (id BIGINT NOT NULL PRIMARY KEY, note VARCHAR(60))"
    fill = f"INSERT INTO burst SELECT seq, REPEAT('b', 50) FROM seq_{begin}_to_{begin + _BURST_ROWS - 1}"
    done = _run(stack, [make]) and _run(stack, ["DELETE FROM burst", fill])
    return f"{_BURST_ROWS:,} rows in one transaction" if done else None


def break_table(stack: LiveStack, random: Random) -> str | None:
    """The folder of a snapshot is away until its table is paused; then it is back, and a person lets the table go on."""
    pipeline = stack.pipeline
    path = pipeline.path("snapshot", DATABASE, "checking")
    stored = pipeline.lake.table(path)
    if stored is None:
        return None
    folder = Path(unquote(urlparse(stored.location()).path))
    away = folder.with_name(f"{folder.name}.away")
    folder.rename(away)
    began = time.monotonic()
    try:
        paused = stack.wait_until(lambda: bool(pipeline.ledger.paused_tables()), seconds=_LONGEST_WAIT, every=0.5)
    finally:
        if folder.exists():  # what was written meanwhile
            for one in folder.rglob("*"):
                if one.is_file():
                    (away / one.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
                    one.rename(away / one.relative_to(folder))
            folder.rename(folder.with_name(f"{folder.name}.{time.time_ns()}"))
        away.rename(folder)
    if not paused:
        return None
    rows = pipeline.ledger.paused_tables()
    assert [str(row.table) for row in rows] == [f"{DATABASE}.checking"], [str(row.table) for row in rows]
    time.sleep(random.uniform(0, 20))
    resume_tables(pipeline, [row.table for row in rows])
    return f"{DATABASE}.checking lost its files, was paused ({rows[0].reason}) for {time.monotonic() - began:.0f} s"


HOSTILE: Final[Mapping[str, Fault]] = {
    "make_table": make_table,
    "change_rows": change_rows,
    "run_statement": run_statement,
    "burst": burst,
    "break_table": break_table,
}


@dataclass(slots=True)
class Lived:
    """The freshness before and under the hostile workload, the number of its acts by name, and all that is wrong."""

    usual: Freshness
    hostile: Freshness | None = None
    acts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def slower(self) -> float | None:
        """The hostile 95th percentile by the usual one."""
        if self.hostile is None or self.hostile.p95 is None or not self.usual.p95:
            return None
        return self.hostile.p95 / self.usual.p95


def live_with_hostility(
    options: LiveOptions,
    *,
    usual: float,
    seconds: float,
    say: Callable[[str], None],
    between: tuple[float, float] = (5.0, 20.0),
) -> Lived:
    """Let a live pipeline run alone for ``usual`` seconds, then beside a hostile workload; then judge it at rest."""
    random = Random(options.seed)
    with live_stack(options, say=say) as stack:
        wait_for_first_tables(stack)
        stack.wait_until(lambda: False, seconds=60.0)  # the first windows are made from all that waited
        begin = time.time()
        stack.wait_until(lambda: False, seconds=usual)
        turn = time.time()
        found = Lived(freshness(stack.commits.read(), stack.cuts.read(), begin=begin, end=turn - 30))
        say(f"alone: {_told(found.usual)}")
        broken = -_BROKEN_EVERY

        def due(name: str) -> bool:
            return name != "break_table" or time.monotonic() - broken >= _BROKEN_EVERY

        for done in under_fire(stack, found.acts, random, seconds=seconds, faults=HOSTILE, between=between, due=due):
            broken = time.monotonic() if "lost its files" in done else broken
            now = freshness(stack.commits.read(), stack.cuts.read(), begin=turn)
            say(f"{done}; {_told(now)}")
        end = time.time()
        stack.supervisor.stop(WORKLOAD)
        last = source_end(stack, options.folder / "dumps" / "end")
        late = catch_up(stack, last, seconds=CATCH_UP)
        found.wrong += [f"{row.table} is paused again: {row.reason}" for row in stack.pipeline.ledger.paused_tables()]
        found.hostile = freshness(stack.commits.read(), stack.cuts.read(), begin=turn, end=end)
        found.wrong += [*late, *wrong(stack, options.folder / "dumps", end=None if late else last)]
        found.wrong += [f"{name} did nothing" for name in HOSTILE if not found.acts[name]]
        if found.slower is None or found.slower > SLOWER:
            found.wrong.append(f"the 95th percentile grew by {found.slower}, more than {SLOWER}")
    return found


def _told(fresh: Freshness) -> str:
    if fresh.p50 is None or fresh.p95 is None:
        return f"{fresh.rows:,} row changes, none visible"
    return f"{fresh.rows:,} row changes, p50 {fresh.p50:.0f} s, p95 {fresh.p95:.0f} s"


def report(found: Lived) -> list[str]:
    """What was found, in lines for a person."""
    hostile = "" if found.hostile is None else _told(found.hostile)
    return [
        f"alone: {_told(found.usual)}",
        f"beside {found.acts.total()} hostile acts: {hostile}",
        f"95th percentile by the usual one: {'-' if found.slower is None else f'{found.slower:.2f}'}, promised <= {SLOWER}",
        *(found.wrong or ["every snapshot equals the database, the ledger is whole, nothing is there twice"]),
    ]
