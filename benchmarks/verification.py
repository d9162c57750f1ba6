"""A thousand tables compared with their MariaDB, from the first question to the last verdict.

``python -m benchmarks.verification`` prints its figures and, as its last line, one JSON object. A MariaDB on this machine has
tables of made-up rows, and a lake has their changelogs and the snapshots made of them. ``dts-assets verify`` then compares all
tables at one moment of the binlog. The server's own statements are timed alone, behind that.

- ``verify``: the seconds of the comparison beyond those of the server's statements, by the promised minute.

The comparison itself judges the rows; at last one cell of the server is changed, and has to be found.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import Options, finish, load, say
from benchmarks.moments import SOURCE_TYPES, Dated
from benchmarks.snapshot import TABLE, Subject
from benchmarks.traffic import START
from benchmarks.workbench import Recording, Workbench
from dts_assets.flows.compared_tables import compared_table
from dts_assets.flows.known_tables import register_shapes
from dts_assets.flows.lake_shapes import stored_shapes
from dts_assets.flows.layers import SNAPSHOT, LayerWork
from dts_assets.flows.snapshots import advance_rows
from dts_assets.flows.tables_plan import MARKED
from dts_assets.flows.this_process import this_process
from dts_assets.flows.turns import tables_turn
from dts_assets.flows.verification import verify
from dts_assets.model.columns import ColumnShape
from dts_assets.model.database_places import DatabasePlace
from dts_assets.model.frontier import Consistency, Frontier
from dts_assets.model.ledger_rows import Cut, TableShapeRow
from dts_assets.model.positions import ServerPosition, SourcePosition
from dts_assets.model.problems import Completeness
from dts_assets.model.spans import Cell
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.sources.live_database import moment_of
from dts_assets.stages.sum_sql import sum_statement
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_emulator.source.server import Server, private_server

PROMISED_SECONDS = 60.0
_LATER = SourcePosition(0, 1 << 20, 0)
"""A cut behind all that the server writes.

Its binlog goes on in another file than the changes came from.
"""


def lake_of(folder: Path, names: Sequence[TableId], *, rows: int, seed: int) -> Dated:
    """Make a lake with some tables, and return one of them.

    All have their first window, with the marks of a run.
    """
    location = LakeLocation(str(folder / "lake"))
    open_catalog(location)
    bench = Workbench(folder, location, None)
    recording = Recording(folder / "none", 1, 2000, 0)
    recording.folder.mkdir()
    pipeline = bench.pipeline("verification", recording)
    subjects = [Dated(bench, pipeline, texts=False, table=name) for name in names]
    for subject in subjects:
        subject.write_window(0, np.arange(rows), np.zeros(rows, np.int64), seed=seed)
    _mark(subjects, rows)
    return subjects[0]


def _mark(subjects: Sequence[Dated], rows: int) -> None:
    """Make all snapshots of the first window, and write its counts and marks.

    A window without a change is marked behind it.

    Raises:
        SystemExit: A table failed.
    """
    pipeline, columns = subjects[0].pipeline, subjects[0].columns
    window, cut = pipeline.grid.at(0), SourcePosition(0, 1, 1 << 40)
    behind = pipeline.grid.at(1)
    subjects[0].mark(0, 0)
    subjects[0].mark(1, 0)
    shapes = tuple(ColumnShape(one.name, SOURCE_TYPES[one.type], one.is_key) for one in columns)
    told = [TableShapeRow(0, START, one.table, shapes, ServerPosition(1, 0), CODE_VERSION) for one in subjects]
    pipeline.ledger.replace_table_shapes([Cell(0, window)], told)
    register_shapes(pipeline, stored_shapes(told))
    pipeline._lake_shape.remember_first_window(START)
    with tables_turn(pipeline, lambda _: None) as turn:
        pipeline.ledger.enter_turn(MARKED, turn)
        pipeline.ledger.replace_window_tables([window], [one.counts(0, rows) for one in subjects], turn=turn)
        frontier, tables = Frontier(START, None, cut), {one.table: columns for one in subjects}
        work = LayerWork(pipeline, tables, (window,), frontier, {}, turn, this_process, lambda _: None)
        faults = [one.fault.reason for one in advance_rows(work, SNAPSHOT).values() if one.fault is not None]
        if faults:
            raise SystemExit(f"verification: {len(faults)} tables failed: {faults[0]}")
        marks = [
            Cut(one, at, None, Consistency.CUT, Completeness.PROVEN, (), "g", (), CODE_VERSION)
            for one, at in ((window, cut), (behind, _LATER))
        ]
        pipeline.ledger.replace_cuts([window, behind], marks, turn=turn)


def fill(server: Server, subject: Subject, names: Sequence[TableId]) -> None:
    """Make the tables at the server, with the rows of one table of the lake.

    The binlog has none of that.
    """
    stored = subject.pipeline.lake.table(subject.pipeline.table_path("snapshot", subject.table))
    assert stored is not None, "the window made it"
    columns = [one.name for one in subject.columns]
    rows = stored.scan(selected_fields=tuple(columns)).to_arrow().select(columns).to_pylist()
    fields = ", ".join(
        f"{one.name} {SOURCE_TYPES[one.type]}{' PRIMARY KEY' if one.is_key else ''}" for one in subject.columns
    )
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"CREATE DATABASE {TABLE.database}")
        cursor.execute(f"USE {TABLE.database}")
        first = names[0].table
        cursor.execute(f"CREATE TABLE {first} ({fields}) CHARACTER SET utf8mb4")
        places = ", ".join(["%s"] * len(columns))
        cursor.executemany(f"INSERT INTO {first} VALUES ({places})", [tuple(row.values()) for row in rows])
        for name in names[1:]:
            cursor.execute(f"CREATE TABLE {name.table} LIKE {first}")
            cursor.execute(f"INSERT INTO {name.table} SELECT * FROM {first}")


def place_of(server: Server) -> DatabasePlace:
    """Return the server as a comparison is told of it."""
    return DatabasePlace("", 0, server.user, server.password, str(server.socket))


def statements_alone(subject: Subject, server: Server, names: Sequence[TableId]) -> float:
    """Return the seconds of the server's own statements, one for each table."""
    lake, spent = subject.pipeline.lake, 0.0
    with moment_of(place_of(server)) as moment:
        described = moment.tables()
        for name in names:
            stored = lake.table(subject.pipeline.table_path("snapshot", name))
            assert stored is not None, "the window made it"
            compared = compared_table(
                subject.pipeline,
                name,
                stored,
                columns=subject.columns,
                source=name,
                described=described[name],
                unknown={},
            )
            assert compared is not None, "no table has a row filter"
            statement = sum_statement(compared.rows, compared.pairs)
            began = time.monotonic()
            moment.rows(statement)
            spent += time.monotonic() - began
    return spent


def require_a_difference(subject: Subject, server: Server, name: TableId) -> None:
    """Change one cell of the server, and require that the comparison names it.

    Raises:
        SystemExit: It does not.
    """
    with server.connect(database=name.database) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"UPDATE {name.table} SET v1 = v1 + 1 WHERE id = 3")
    found = verify(subject.pipeline, place_of(server), timeout=5.0)
    differences = found.verdicts[name].differences
    told = [] if differences is None else [(dict(row.key), row.columns) for row in differences.rows]
    if found.unequal != (name,) or told != [({"id": "3"}, ("v1",))]:
        raise SystemExit(f"verification: a changed cell was not named: {found.unequal}, {told}")


def main(arguments: Sequence[str]) -> None:
    """Measure the comparison.

    Raises:
        SystemExit: It found other than what is there.
    """
    options = Options("verification", __doc__)
    options.add_tables(1000)
    options.add_argument("--rows", type=int, default=10_000_000, help="of all tables (default 10,000,000)")
    options.add_turns(2)
    options.add_seed()
    chosen = options.parse_args(arguments)
    names = [TableId(TABLE.database, "", f"t{number:04}") for number in range(chosen.tables)]
    each, best = chosen.rows // chosen.tables, {"whole": float("inf"), "cpu": float("inf"), "server": float("inf")}
    with tempfile.TemporaryDirectory(prefix="dts-assets-") as folder, private_server() as server:
        began = time.monotonic()
        subject = lake_of(Path(folder), names, rows=each, seed=chosen.seed)
        fill(server, subject, names)
        say(f"{len(names):,} tables with {each:,} rows each were filled in {time.monotonic() - began:.0f} s")
        for turn in range(chosen.turns):
            began, cpu = time.monotonic(), time.process_time()
            found = verify(subject.pipeline, place_of(server), timeout=5.0)
            best["whole"] = min(best["whole"], time.monotonic() - began)
            best["cpu"] = min(best["cpu"], time.process_time() - cpu)
            if len(found.verdicts) != len(names) or not all(one.is_equal for one in found.verdicts.values()):
                raise SystemExit(f"verification: unequal {found.unequal[:3]}, refused {[*found.refused.items()][:3]}")
            best["server"] = min(best["server"], statements_alone(subject, server, names))
            say(f"turn {turn + 1}: {best['whole']:.1f} s, of which the server's statements {best['server']:.1f} s")
        require_a_difference(subject, server, names[-1])
    ratios = {"verify": round((best["whole"] - best["server"]) / PROMISED_SECONDS, 2)}
    finish("verification", ratios, {**best, "rows": each * len(names), "load": load()})


if __name__ == "__main__":
    main(sys.argv[1:])
