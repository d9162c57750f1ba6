"""The output of ``inspect``: plain text, with values as type and length unless they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dts_assets.cli.inspect_found import ENTRY_COLUMNS, FoundMessage, Stock, name_shown, table_of
from dts_assets.model.collections import lake_column
from dts_assets.model.columns import Column
from dts_assets.model.ledger_rows import Counts, Cut, IngestWindow, WindowTable
from dts_assets.model.message_retention import ENTRIES, NOTHING_REMOVED, RAW, Removed
from dts_assets.model.problems import Problem, Reason
from dts_assets.model.spans import Cell, partition_key
from dts_assets.model.windows import ClosedBy
from dts_assets.planning.judgements import level_text
from dts_assets.wire.format import TooLargeError, WireFormat

_OPEN_PROPERTIES = frozenset((
    "isLast", "eventIndex", "version", "executionTime", "epoch", "syncedGtid", "fakeGtid", "fileName", "position",
    "type", "isDdl", "ts", "readerTimestamp", "safePosition",
))  # fmt: skip
"""Properties that never hold values of rows; all others may, statements above all."""

_HEADER = ENTRY_COLUMNS[ENTRY_COLUMNS.index("message_type") : ENTRY_COLUMNS.index("file_name")]
"""The columns of an entry's header, its position excepted."""

_MESSAGES = ("whole", "fragments", "null_messages", "quarantined_messages")
"""The kinds of messages that a window has."""


class Shown:
    """The writer to a console. ``values`` says whether values of rows may be seen."""

    def __init__(self, console: Console, *, values: bool) -> None:
        self._console = console
        self._values = values

    def message(self, subscription: str, kafka_partition: int, found: FoundMessage, wire: WireFormat) -> None:
        """Show a message with its headers and its envelope."""
        (row,) = found.batch.to_pylist()
        (fragment,) = wire.fragments(found.batch).to_pylist()
        self._line(f"message {partition_key(kafka_partition)} {row['offset']} of {subscription}")
        headers = [f"{one['key']} {self._value(one['value'], 'binary')}" for one in row["headers"] or ()]
        facts = {
            "topic": f"{row['topic']}, partition {row['partition']}",
            "time": _time(row["timestamp"]),
            "window": found.window,
            "key": self._value(row["key"], "binary"),
            "value": self._value(row["value"], "binary"),
            "headers": "\n".join(headers) or "none",
            "envelope": _envelope(fragment),
            "shard": fragment["shard"] or None,
            "sequence": fragment["sequence"],
        }
        self._facts(facts)

    def entries(self, entries: pa.Table) -> None:
        """Show a line for each entry."""
        grid = _grid("entry", "offsets", "type", "time", "table", "rows", "position", "gtid")
        for row in entries.to_pylist():
            first, last = row["first_offset"], row["last_offset"]
            grid.add_row(
                str(row["entry_number"]),
                f"{partition_key(row['kafka_partition'])} {first}" + ("" if first == last else f" to {last}"),
                row["message_type"],
                _time(row["event_time"]),
                Text(name_shown(row), overflow="fold"),
                "" if row["rows"] is None else str(row["rows"]),
                _position(row),
                Text(row["gtid"] or "", overflow="fold"),
            )
        self._console.print(grid)

    def entry(self, row: Mapping[str, Any], stock: Stock, wire: WireFormat) -> None:
        """Show the fields of an entry and its row changes."""
        first, last = row["first_offset"], row["last_offset"]
        self._line(
            f"entry {row['entry_number']} of the set at {partition_key(row['kafka_partition'])} {first} to {last}"
        )
        facts: dict[str, Any] = {name: _time(row[name]) if name == "event_time" else row[name] for name in _HEADER}
        facts |= {"position": _position(row) or None, "table": name_shown(row) or None, "rows": row["rows"]}
        facts["payload"] = f"<binary, {len(row['payload'])} bytes>"
        for key, value in row["properties"] or ():
            facts[key] = value if key in _OPEN_PROPERTIES else self._value(value, "string")
        self._facts(facts)
        if row["message_type"] == "DML":
            self._changes(row, stock, wire)

    def window(
        self,
        rows: Sequence[IngestWindow],
        tables: Sequence[WindowTable],
        cut: Cut | None,
        *,
        removed: Removed = NOTHING_REMOVED,
    ) -> None:
        """Show the evidence of a window: counts, equations and problems of each Kafka partition, then its cut."""
        for row in rows:
            mine, counts = [one for one in tables if one.kafka_partition == row.kafka_partition], row.counts
            changes = _equation(sum(one.changes for one in mine), mine, ("kept", "redelivered", "quarantined"))
            self._line(f"{row.cell}: {level_text(row.completeness, still_open=row.closed_by is ClosedBy.OPEN)}")
            facts = {
                "offsets": str(row.offsets),
                "closed by": row.closed_by.value,
                "checkpoint": row.checkpoint,
                "gtid set": row.checkpoint_gtid_set,
                "messages": _equation(counts.messages, [counts], _MESSAGES),
                "fragments": _fragments(counts),
                "entry sets": _sets(counts),
                "entries": _equation(counts.entries, [counts], ("data", "control", "quarantined_entries")),
                "changes": changes if mine else None,
                "invalid values": _invalid(mine),
                "problems": _problems(row.problems),
                "generation": row.generation,
                "kept as made": _removed_text(row.cell, removed),
            }
            self._facts(facts)
        if cut is None:
            self._line("cut: none, the tables of this window were not computed yet")
            return
        self._line(f"cut: {level_text(cut.completeness, still_open=bool(cut.open_in))}")
        self._facts(
            {
                "cut": cut.cut,
                "consistency": cut.consistency.value,
                "gtid set": cut.gtid_set,
                "problems": _problems(cut.problems),
                "generation": cut.generation,
            }
        )

    def _changes(self, row: Mapping[str, Any], stock: Stock, wire: WireFormat) -> None:
        columns = tuple(
            lake_column(shape, wire.column_type(shape.original_type, unsigned=False, table=table_of(row)))
            for shape in stock.shapes(row)
        )
        schema = pa.schema({"payload": pa.binary(), **dict.fromkeys(("database", "schema", "table"), pa.string())})
        try:
            decoded = wire.changes(pa.RecordBatch.from_pylist([row], schema), {table_of(row): columns})
        except TooLargeError:
            self._line(f"not decoded: {Reason.TOO_LARGE.value}")
            return
        for rejected in decoded.rejected:
            self._line(f"not decoded: {rejected.reason.value}")
        for one in decoded.tables:
            for change in one.batch.to_pylist():
                self._line(f"row {change['row_number']}: {change['op']}")
                grid = _grid("column", "before", "after")
                for column in columns:
                    grid.add_row(column.name, *(self._cell(change, image, column) for image in ("before", "after")))
                self._console.print(grid)

    def _cell(self, change: Mapping[str, Any], image: str, column: Column) -> Text:
        name = f"{image}.{column.name}"
        if change[image] is None:
            return Text("")
        if name in (change["absent"] or ()):
            return Text("not sent")
        original = dict(change["invalid"] or ()).get(name)
        if original is not None:
            return Text(f"does not fit: {self._value(original, column.type)}", overflow="fold")
        return Text(self._value(change[image][column.name], column.type), overflow="fold")

    def _value(self, value: Any, kind: str) -> str:
        if value is None:
            return "NULL" if kind != "binary" else "null"
        if self._values:
            return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
        unit = "bytes" if isinstance(value, bytes) else "characters"
        return f"<{kind}, {len(value if isinstance(value, bytes) else str(value))} {unit}>"

    def _facts(self, facts: Mapping[str, Any]) -> None:
        grid = Table.grid(padding=(0, 2))
        for name, value in facts.items():
            if value is not None:
                grid.add_row(f"  {name}", Text(str(value), overflow="fold"))
        self._console.print(grid)

    def _line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _removed_text(cell: Cell, removed: Removed) -> str | None:
    """Return what retention has removed of a cell and when; None for nothing."""
    gone = {layer: at for layer in (RAW, ENTRIES) if (at := removed.when(layer, cell)) is not None}
    told = (f"{layer} removed by retention on {at:%Y-%m-%d %H:%M} UTC" for layer, at in gone.items())
    return ", ".join(told) if gone else None


def _invalid(rows: Sequence[WindowTable]) -> str | None:
    """Return a line for each column with values that do not fit, or with another type."""
    lines = [f"{row.table}: {one.values} of {one.column}" for row in rows for one in row.invalid_columns]
    return "\n".join(lines) or None


def _grid(*names: str) -> Table:
    return Table(*names, box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0))


def _time(instant: Any) -> str | None:
    return None if instant is None else instant.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")


def _position(row: Mapping[str, Any]) -> str:
    return "" if row["position"] is None else f"{row['file_name'] or ''}:{row['position']}"


def _envelope(fragment: Mapping[str, Any]) -> str:
    if fragment["is_null"]:
        return "no value"
    if fragment["reason"] is not None:
        return f"cannot be used: {fragment['reason']}"
    if fragment["total"] == 1:
        return "a whole entry set"
    return f"fragment {fragment['index']} of {fragment['total']} (counted from 0)"


def _fragments(counts: Counts) -> str:
    names = ("joined", "superseded", "waiting", "quarantined_fragments", "carried_out")
    left = f"{counts.carried_in} carried_in + {counts.fragments} fragments"
    return _equation(counts.carried_in + counts.fragments, [counts], names, left=left)


def _sets(counts: Counts) -> str:
    left = f"{counts.whole} whole + {counts.joined_sets} joined_sets"
    return _equation(counts.whole + counts.joined_sets, [counts], ("decoded_sets", "quarantined_sets"), left=left)


def _equation(total: int, rows: Sequence[object], names: Sequence[str], *, left: str | None = None) -> str:
    """Return one equation with the sums of some columns, and its difference if it does not hold."""
    terms = {name: sum(getattr(row, name) for row in rows) for name in names}
    text = f"{left or total} = " + " + ".join(f"{count} {name}" for name, count in terms.items())
    off = total - sum(terms.values())
    return text if not off else f"{text}   DOES NOT HOLD, by {off}"


def _problems(problems: Sequence[Problem]) -> str:
    if not problems:
        return "none"
    return "\n".join(
        f"{one.code.value}"
        + ("" if one.first_offset is None else f" {one.first_offset} to {one.last_offset}")
        + f": {one.detail}"
        for one in problems
    )
