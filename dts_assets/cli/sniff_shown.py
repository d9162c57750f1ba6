"""The output of ``sniff``: format, Kafka partitions, tables, columns, and what cannot be known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dts_assets.flows.sniffing import Sniffed, SniffedTable
from dts_assets.model.spans import partition_key
from dts_assets.settings.formats import traits_of

_LONGEST_TYPE = 60


def show(console: Console, found: Sniffed, *, needs_schema: bool) -> None:
    """Show all that a sample told. ``needs_schema`` says that no schema file was given."""
    _line(console, f"format: {found.recognition.sentence}")
    if found.format is not None and found.format not in found.recognition.formats:
        _line(console, f"read as {found.format}, as you said")
    grid = _grid("Kafka partition", "topic", "offsets", "first message", "latest message", "looked at")
    for one in found.partitions:
        mark = one.mark
        offsets = f"{mark.low} to {mark.high - 1}" if mark.high > mark.low else "none"
        place = Text(f"{one.topic}, partition {one.partition}", overflow="fold")
        grid.add_row(
            partition_key(one.number), place, offsets, _time(mark.earliest), _time(mark.latest), f"{one.looked_at:,}"
        )
    console.print(grid)
    messages = sum(one.mark.high - one.mark.low for one in found.partitions)
    _line(console, f"looked at {found.looked_at:,} of about {messages:,} messages, the first and the last of each")
    if found.tables:
        _show_tables(console, found)
    for remark in _unknown(found, needs_schema=needs_schema):
        _line(console, f"not known: {remark}")


def _show_tables(console: Console, found: Sniffed) -> None:
    grid = _grid("table", "rows", "operations", "Kafka partitions", "columns")
    for one in found.tables:
        operations = ", ".join(f"{count:,} {name}" for name, count in one.operations.most_common())
        partitions = " ".join(partition_key(number) for number in sorted(one.kafka_partitions))
        grid.add_row(
            Text(str(one.table), overflow="fold"), f"{one.rows:,}", operations, partitions, str(len(one.columns))
        )
    console.print(grid)
    for one in found.tables:
        _show_columns(console, one)
    if found.statements:
        _line(console, f"{found.statements:,} DDL statements")
    for reason, count in sorted(found.rejected.items()):
        _line(console, f"cannot be read: {count:,} ({reason})")


def _show_columns(console: Console, table: SniffedTable) -> None:
    _line(console, f"{table.table}:")
    grid = _grid("  column", "source type", "lake type", "")
    for column in table.columns.values():
        source = table.source_types[column.name]
        shown = source if len(source) <= _LONGEST_TYPE else f"{source[:_LONGEST_TYPE]}..."
        name = Text(f"  {column.name}", overflow="fold")
        grid.add_row(name, Text(shown, overflow="fold"), column.type, "key" if column.is_key else "")
    console.print(grid)


def _unknown(found: Sniffed, *, needs_schema: bool) -> Iterator[str]:
    """Yield what a sample cannot tell, as clauses."""
    if len(found.recognition.formats) > 1:
        yield f"which of {' and '.join(found.recognition.formats)} it is; look at more messages, or at the task"
    likely = found.format or next(iter(found.recognition.formats), None)
    if likely is not None and needs_schema and traits_of(likely).needs_schema:
        yield "tables and columns, which only the schema file tells: say --schema and the file"
    if found.looked_at < sum(one.mark.high - one.mark.low for one in found.partitions):
        yield "tables that stand only in messages between"
    if any(one.mark.high == one.mark.low for one in found.partitions):
        yield "whether the Kafka partitions without messages will have some"


def _grid(*names: str) -> Table:
    return Table(*names, box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0))


def _time(instant: datetime | None) -> str:
    return "" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}"


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
