"""Foreign keys: many of them in one statement and in many, and many windows with changes that they pass on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from dts_assets.model.foreign_keys import ForeignKey, KeyHistory, KeyPeriod, PositionSpan
from dts_assets.model.positions import SourcePosition
from dts_assets.model.tables import TableId
from dts_assets.planning.unseen_changes import TableChange, first_unseen, unseen_changes
from dts_assets.stages.moved_rows import changed_values, moved_keys
from dts_assets.stages.parent_changes import parent_changes, parent_spans
from dts_assets.wire.ddl.foreign_key_history import ShownKeys, foreign_key_history
from dts_assets.wire.ddl.foreign_keys import key_steps
from dts_assets.wire.ddl.schema_history import SourceStatement
from dts_assets.wire.format import TableChanges
from tests.growth.long_histories import Case

_START = datetime(2026, 1, 5, tzinfo=UTC)
_CHILD = TableId("d", "", "c")


def _at(number: int) -> SourcePosition:
    return SourcePosition(0, 4, number)


def _keys_of_one(count: int) -> str:
    return ", ".join(f"FOREIGN KEY (p{n}) REFERENCES p{n} (id) ON DELETE CASCADE" for n in range(count))


def _declared(count: int) -> list[SourceStatement]:
    return [
        SourceStatement(_at(1), "d", f"CREATE TABLE c (id int, {_keys_of_one(count)})"),
        SourceStatement(_at(2), "d", "RENAME TABLE c TO e, e TO c"),
        SourceStatement(
            _at(3), "d", "ALTER TABLE c " + ", ".join(f"DROP FOREIGN KEY c_ibfk_{n}" for n in range(count))
        ),
        SourceStatement(_at(4), "d", f"ALTER TABLE c ADD {_keys_of_one(count).replace(', F', ', ADD F')}"),
    ]


def _history(statements: list[SourceStatement]) -> object:
    key_steps.cache_clear()  # a cache has few statements and not many, and the ratio would be its
    keys = foreign_key_history(statements).keys
    key_steps.cache_clear()
    shown = [ShownKeys(_at(9), _CHILD, tuple(one.key for one in keys))]
    return foreign_key_history(statements, shown)


def _statements(count: int) -> list[SourceStatement]:
    """Children of one parent that come, get other names and go."""
    texts = (
        "CREATE TABLE c{0} (p int REFERENCES p (id) ON DELETE CASCADE)",
        "RENAME TABLE c{0} TO e{0}",
        "DROP TABLE e{0}",
    )
    return [SourceStatement(_at(n), "d", texts[n % 3].format(n // 3)) for n in range(count)]


def _changes(count: int) -> list[TableChange]:
    return [
        TableChange(PositionSpan(_at(n), _at(n)), _at(0), _at(count), None, _START + timedelta(hours=n))
        for n in range(count)
    ]


def _pass_on(changes: list[TableChange]) -> object:
    keys = tuple(KeyPeriod(ForeignKey("k", ("p",), "d", "p", ("id",), "CASCADE"), n + 1, n, _at(0)) for n in range(3))
    found = unseen_changes(KeyHistory(keys=keys), {0: changes})
    return [first_unseen(some, since=None) for some in found.values()]


def _rows(count: int) -> pa.RecordBatch:
    image = pa.array([{"id": n, "n": n} for n in range(count)])
    other = pa.array([{"id": n + n % 2, "n": n} for n in range(count)])
    return pa.RecordBatch.from_pydict(
        {
            "entry_index": pa.array(range(count), pa.int32()), "op": ["delete" if n % 3 else "update" for n in range(count)],
            "before": image, "after": other, "absent": pa.array([["after.n"] if n % 5 == 0 else [] for n in range(count)]),
        }
    )  # fmt: skip


def _entries(count: int) -> pa.RecordBatch:
    zeros = pa.array([0] * count, pa.int32())
    return pa.RecordBatch.from_pydict(
        {
            "kafka_partition": zeros, "window_start": pa.array([_START + timedelta(hours=n // 9) for n in range(count)]),
            "last_offset": range(count), "lineage": zeros, "file_name": ["bin.000001"] * count, "position": range(count),
        }
    )  # fmt: skip


def _count(rows: pa.RecordBatch) -> object:
    found = parent_changes(TableChanges(_CHILD, rows), ["id"])
    assert found is not None
    updates = np.ones(rows.num_rows, np.bool_)
    spans = list(parent_spans([found], _entries(rows.num_rows), np.arange(rows.num_rows) % 2 == 0))
    return spans, moved_keys(rows, updates, ["id"]), changed_values(rows, updates, ["n"])


KEY_STEPS: dict[str, Case] = {
    "foreign keys of one table": (_declared, _history),
    "foreign keys of many tables": (_statements, _history),
    "windows with changes that foreign keys pass on": (_changes, _pass_on),
    "deletes and moved keys among changes": (_rows, _count),
}
