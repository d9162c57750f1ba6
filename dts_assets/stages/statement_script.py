"""A script of statements: rows of changes and of DDL that can be sorted, and their lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.copied_tables import NO_KAFKA_PARTITION
from dts_assets.stages.change_columns import TRUNCATE, is_operation
from dts_assets.stages.keys import Numbers
from dts_assets.stages.row_places import POSITION, positions_of
from dts_assets.stages.sql_dialect import Dialect
from dts_assets.wire.ddl.chosen_statements import Choice, ChosenStatements, chosen_statements
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.reading import effects_of

SCRIPT = pa.schema(
    [
        ("lineage", pa.int64()),
        ("file", pa.int64()),
        ("position", pa.int64()),
        ("kind", pa.int64()),  # DDL stands before the rows of its position
        ("row_number", pa.int64()),
        ("kafka_partition", pa.int64()),
        ("kafka_offset", pa.int64()),
        ("old_key", pa.int64()),  # hashes of the keys between which a row moves
        ("new_key", pa.int64()),
        ("text", pa.string()),
        ("otherwise", pa.string()),  # the statement behind it, for one that may find no row
        ("database", pa.string()),  # of DDL, its default database, where names without one may stand
    ]
)
"""The rows of a script."""

DDL_KIND, ROW_KIND = 0, 1

_OF_DATABASES = (EffectKind.CREATE_DATABASE, EffectKind.DROP_DATABASE)


def statement_script_rows(
    rows: pa.RecordBatch, moved: tuple[Numbers, Numbers], otherwise: pa.Array | None = None
) -> pa.Table:
    """Return the rows of a script for rows of statements.

    ``moved`` are the hashes of the keys between which rows move, ``otherwise`` the statements for updates that may find no row.
    """
    texts = rows.column("statement"), pa.nulls(rows.num_rows, pa.string()) if otherwise is None else otherwise
    return _script_rows(rows, ROW_KIND, (rows.column("row_number"), *map(pa.array, moved)), texts, None)


def ddl_script_rows(rows: pa.RecordBatch, choice: Choice) -> tuple[pa.Table, ChosenStatements]:
    """Return the rows of a script for rows of ``ddl``, and what was chosen of them.

    Statements that are left out are counted there.
    """
    rows = rows.filter(pc.is_valid(rows.column("sql")))
    every, places, numbers, databases = ChosenStatements(), list[int](), list[int](), list[str | None]()
    texts = zip(rows.column("sql").to_pylist(), rows.column("database").to_pylist(), strict=True)
    for place, (sql, database) in enumerate(texts):
        chosen = chosen_statements(sql, database or "", choice)
        every.add(chosen)
        places += [place] * len(chosen.texts)
        numbers += range(len(chosen.texts))
        databases += [database if database in choice.databases else None] * len(chosen.texts)
    rows = rows.take(pa.array(places, pa.int64()))
    nothing = pa.array(np.zeros(rows.num_rows, np.int64))
    both = pa.array(every.texts, pa.string()), pa.nulls(rows.num_rows, pa.string())
    beside = pa.array(numbers, pa.int64()), nothing, nothing
    return _script_rows(rows, DDL_KIND, beside, both, pa.array(databases, pa.string())), every


def _script_rows(
    rows: pa.RecordBatch, kind: int, numbers: Sequence[pa.Array], texts: Sequence[pa.Array], databases: pa.Array | None
) -> pa.Table:
    """Return the rows of a script; ``numbers`` are those of the rows, and the hashes of their keys."""
    position = rows.column("source_position")
    parts = [pc.struct_field(position, name) for name in POSITION]
    kinds = pa.array(np.full(rows.num_rows, kind, np.int64))
    # Rows of copied tables came from no Kafka partition.
    beside = [rows.column(name).fill_null(NO_KAFKA_PARTITION) for name in ("kafka_partition", "kafka_offset")]
    databases = pa.nulls(rows.num_rows, pa.string()) if databases is None else databases
    columns = [*parts, kinds, numbers[0], *beside, *numbers[1:], *texts, databases]
    arrays = [column.cast(one.type) for column, one in zip(columns, SCRIPT, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCRIPT)


def without_truncations(changes: pa.RecordBatch, at: Collection[tuple[int, int, int]]) -> pa.RecordBatch:
    """Return changelog rows without the truncations that stand at some positions, where a statement does their work."""
    truncations = np.flatnonzero(is_operation(changes, TRUNCATE))
    if not len(truncations) or not at:
        return changes
    places = zip(*(part[truncations].tolist() for part in positions_of(changes)), strict=True)
    gone = [row for row, place in zip(truncations.tolist(), places, strict=True) if place in at]
    mask = np.ones(changes.num_rows, np.bool_)
    mask[gone] = False
    return changes.filter(pa.array(mask))


@dataclass(slots=True)
class Script:
    """The lines of a script in a dialect, and how many statements it has so far.

    ``database`` is the default database of the session that runs it.
    """

    dialect: Dialect
    database: str = ""
    changes: int = field(default=0, init=False)
    ddl: int = field(default=0, init=False)

    def opening(self, title: str) -> str:
        """Return the first lines: a title, and the statements that prepare the session."""
        return "".join(f"{line}\n" for line in (f"-- {title}", *(f"{one};" for one in self.dialect.preamble)))

    def text(self, rows: pa.Table) -> str:
        """Return the lines of rows of a script, in their order."""
        return "".join(f"{line}\n" for line in self._lines(rows))

    def _lines(self, rows: pa.Table) -> Iterator[str]:
        columns = (rows[name].to_pylist() for name in ("kind", "text", "otherwise", "database"))
        for kind, text, otherwise, database in zip(*columns, strict=True):
            if kind == ROW_KIND:
                self.changes += 1
                yield text if text.startswith("--") else f"{text};"
                if otherwise is not None:  # where the row was found it changes nothing
                    yield f"{otherwise};"
            elif text.strip():
                self.ddl += 1
                yield from self._use(text, database or "")
                yield from self.dialect.statement(text)

    def _use(self, sql: str, database: str) -> Iterator[str]:
        """Yield the line that makes a statement's database the default, if it is another one.

        A statement that makes or drops a database needs none, and after a drop the session may have none.
        """
        effects = effects_of(sql, database).effects
        if any(effect.kind in _OF_DATABASES for effect in effects):
            dropped = {effect.database for effect in effects if effect.kind is EffectKind.DROP_DATABASE}
            self.database = "" if self.database in dropped else self.database
        elif database and database != self.database:
            self.database = database
            line = self.dialect.use(database)
            if line is not None:
                yield line
