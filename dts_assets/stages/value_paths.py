"""The way of a column's values from an earlier schema of its table to a later one.

A column of now may have had other names and types, or none: then the statement that added it says its value. So a row's last
event, or its row in a snapshot, is read by the columns of its own time, and its values go through the statements since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.columns import joined_type, widened
from dts_assets.model.tables import TableId
from dts_assets.stages.altered_rows import Cells, added_cells, modified_cells
from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.mapped_texts import as_texts, from_texts
from dts_assets.stages.server_types import server_type
from dts_assets.stages.sql_text import with_nulls
from dts_assets.stages.value_keeping import keeps_values
from dts_assets.wire.columns.casts import arrow_type, clocks_in, parse
from dts_assets.wire.columns.lake_texts import held_as, read_back
from dts_assets.wire.ddl.column_definitions import Fill, fill_of_default, fill_of_insert, is_number
from dts_assets.wire.ddl.literals import text_literal
from dts_assets.wire.ddl.schema_changes import ColumnAdded, ColumnModified, ColumnsRenamed
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.table_schemas import Family, SchemaColumn
from dts_assets.wire.ddl.told_schemas import ToldColumn, types_alike

TextByRule: TypeAlias = Callable[[SchemaColumn, str], str | None]
"""Gives a text of a column as its rule makes it. It gives None for a column without a rule, and for one that is no text."""


def no_text(_column: SchemaColumn, _text: str) -> None:
    """Stand for no rule."""


_NO_TABLE = TableId("", "", "")


@dataclass(frozen=True, slots=True)
class ValueStep:
    """A change of a column that its values go through, at the time of its statement."""

    change: ColumnAdded | ColumnModified
    time: datetime | None


@dataclass(frozen=True, slots=True)
class ToldStep(ValueStep):
    """A change of a column that events told and no statement: its exact place is not known.

    Values of the new type may stand before it.
    """

    change: ColumnModified


@dataclass(frozen=True, slots=True, eq=False)
class ValuePath:
    """The way of a column's values to a later schema.

    ``origin`` is the name of the column in the earlier schema. It is None for a column that came since, which the first of the
    ``steps`` added. Steps that keep every value are left out. The ways of a column from all schemas share one ``chain`` of steps,
    of which the last one stands first: this way has ``count`` of them, behind the ``first``. Wall clocks that a setting stores as
    instants are those of ``zone``; it is empty where there are none. ``own_type`` is the lake type of the column at the end
    where it is not that of the server's values: events tell values of that type. It also stands where the values get another
    type, which need not hold them.
    """

    origin: str | None
    chain: tuple[ValueStep, ...] = ()
    count: int = 0
    first: ValueStep | None = None
    zone: str = ""
    own_type: str = ""

    @property
    def steps(self) -> tuple[ValueStep, ...]:
        """The steps on the way, in their order."""
        rest = self.chain[: self.count][::-1]
        return rest if self.first is None else (self.first, *rest)

    @property
    def has_steps(self) -> bool:
        """True if there is a step on the way."""
        return self.first is not None or self.count > 0

    @property
    def keeps_values(self) -> bool:
        """True if values are read as they stand: of the same column, or NULL of an added one."""
        return not self.has_steps or self._only_fill in (Fill.NULL, Fill.UNKNOWN)

    @property
    def is_unknown(self) -> bool:
        """True if the column came with values which no statement says, and is read as it stands: NULL."""
        return self._only_fill is Fill.UNKNOWN

    @property
    def _only_fill(self) -> Fill | None:
        """The value with which a column came that no later step changed; None for any other way."""
        if not self.has_steps or self.count != (0 if self.first else 1):
            return None
        one = self.first or self.chain[self.count - 1]
        return one.change.fill if isinstance(one.change, ColumnAdded) else None

    @property
    def may_not_fit(self) -> bool:
        """True if a value may be a text that does not fit, after a conversion or as default."""
        added = (one.change for one in self.steps if isinstance(one.change, ColumnAdded))
        return any(isinstance(one.change, ColumnModified) for one in self.steps) or any(
            one.fill_value is not None and (self.own_type or one.fill_value.startswith("0000")) for one in added
        )

    def without_steps(self) -> ValuePath:
        """Return the way of values that no statement changes."""
        return ValuePath(self.origin, zone=self.zone)

    def by_rule(self, rule_of: TextByRule) -> ValuePath:
        """Return the way of values that a rule has made others: no statement changes them.

        A column that just came has its default by the rule, where the default is a text.
        """
        added = self.steps[0].change if self.origin is None and len(self.steps) == 1 else None
        if not isinstance(added, ColumnAdded) or added.fill is not Fill.VALUE or added.fill_value is None:
            return self.without_steps()
        made = rule_of(added.column, added.fill_value)
        if made is None:
            return self.without_steps()
        column = SchemaColumn(added.column.name, "longtext", "utf8mb4")
        return ValuePath(None, first=ValueStep(ColumnAdded(_NO_TABLE, column, None, Fill.VALUE, made), None))


def inserted_fill(column: SchemaColumn, *, is_key: bool = False) -> tuple[Fill, str | None]:
    """Return the kind of value that inserts give a column which they leave out, and the value.

    A column that takes no NULL and has no default has the zero of its type: a strict server takes no such insert ("Data Type
    Default Values" in MySQL's manual). Inserts send all columns of a primary key.
    """
    if isinstance(column, ToldColumn):
        return Fill.UNKNOWN, None
    if column.default is not None:
        return fill_of_default(column.default, column.type)
    if column.nullable:
        return Fill.NULL, None
    kind = server_type(column)
    if kind is None or is_key or column.generated or column.auto_increment:
        return Fill.UNKNOWN, None
    return fill_of_insert(column.type, kind.labels)


def inserted_text(
    column: SchemaColumn | None, by_rule: TextByRule | None = None, *, is_key: bool
) -> tuple[str, str | None]:
    """Return a type and the SQL text of the value that inserts give, as a snapshot keeps them.

    Under a rule they are those of the text that it makes. None stands for a value that is not known, and for NULL.
    """
    if column is None or isinstance(column, ToldColumn):
        return "", None
    if column.default is not None and by_rule is None:
        return column.type, column.default
    fill, value = inserted_fill(column, is_key=is_key)
    if fill is not Fill.VALUE or value is None:
        return "", None
    if by_rule is None:
        return column.type, value if is_number(value) else text_literal(value)
    made = by_rule(column, value)
    return ("", None) if made is None else ("longtext", text_literal(made))


def default_path(column: SchemaColumn, path: ValuePath, *, is_key: bool = False) -> ValuePath | None:
    """Return the way of a value of inserts to the end of a path; None without one."""
    fill, value = inserted_fill(column, is_key=is_key)
    if fill is not Fill.VALUE:
        return None
    added = ColumnAdded(_NO_TABLE, column, None, fill, value)
    return ValuePath(None, path.chain, path.count, ValueStep(added, None), zone=path.zone, own_type=path.own_type)


def own_type(column: SchemaColumn, lake_type: str) -> str:
    """Return the lake type of a column unless it is that of the server's values; else empty."""
    kind = server_type(column)
    return "" if kind is None or kind.lake_type == lake_type else lake_type


def with_own_type(path: ValuePath, own: str, lake_type: str) -> ValuePath:
    """Return the way of values of a type to a lake type.

    Their own type has to be known where the lake type need not hold them.
    """
    return path if joined_type(own, lake_type) == lake_type else replace(path, own_type=own)


def value_paths(
    states: Sequence[SchemaState], start: int, end: int, names: Iterable[str]
) -> list[Mapping[str, ValuePath]]:
    """Return the ways of some columns of a state, by name, from each state between two.

    ``start`` and ``end`` are places in ``states``, the states of a table in their order. The first ways begin at ``start``, and
    the last ones, at ``end``, are none. A column that events alone told, and no statement, has the values under its name.
    """
    chains = {name: list[ValueStep]() for name in names}
    ways: list[dict[str, tuple[str | None, int]]] = [{name: (name, 0) for name in chains}]
    for place in range(end, start, -1):
        ways.append(
            {name: (_origin(states, place, way[0], chains[name]), len(chains[name])) for name, way in ways[-1].items()}
        )
    whole = {name: tuple(chain) for name, chain in chains.items()}
    return [
        {name: ValuePath(origin, whole[name], count) for name, (origin, count) in one.items()} for one in reversed(ways)
    ]


def value_path(states: Sequence[SchemaState], start: int, end: int, name: str) -> ValuePath:
    """Return the way of one column of a state from an earlier state; see :func:`value_paths`."""
    return value_paths(states, start, end, [name])[0][name]


def _origin(states: Sequence[SchemaState], place: int, name: str | None, chain: list[ValueStep]) -> str | None:
    """Return the name of a column in the state before, and add its steps to its chain."""
    if name is None:
        return None
    state = states[place]
    time = None if state.statement is None else state.statement.time
    for change in reversed(state.changes):
        match change:
            case ColumnsRenamed():
                name = next((old for old, new in change.names if new == name), name)
            case ColumnModified() if change.new.name == name:
                if not keeps_values(change.old, change.new):
                    chain.append(ValueStep(change, time))
            case ColumnAdded() if change.column.name == name:
                chain.append(ValueStep(change, time))
                return None
    if not state.changes and (told := _told_change(states, place, name)) is not None:
        name = told.change.old.name
        if not keeps_values(told.change.old, told.change.new):
            chain.append(told)
    return name


def _told_change(states: Sequence[SchemaState], place: int, name: str) -> ToldStep | None:
    """Return the change of a column that events alone told; None for a column that came."""
    schemas = states[place - 1].schema, states[place].schema
    before, now = (None if one is None else one.column(name) for one in schemas)
    if before is None or now is None:
        return None
    alike = types_alike(before.type, now.type)
    old = replace(before, type=now.type if alike else before.type, charset=now.charset if alike else before.charset)
    return ToldStep(ColumnModified(_NO_TABLE, old, replace(now, nullable=old.nullable)), None)


def followed(
    path: ValuePath, stored: pa.Array | None, texts: pa.Array | None, count: int, lake_type: str, family: Family | None
) -> Cells:
    """Return the values at the end of a path, in a lake type.

    Args:
        path: The way of the column's values.
        stored: The values of the origin in any lake type; None where they are not stored, or where there is no origin.
        texts: The source's texts of values that do not fit their type, null for all others; None where all fit.
        count: The number of rows.
        lake_type: The type that the values have at the end, such as ``decimal(10,2)``.
        family: The server's family, None where it is not known.
    """
    if path.own_type and path.own_type != lake_type:
        # As with an event, a value that its own type does not take is none, though the type of all columns may hold it.
        made = followed(path, stored, texts, count, path.own_type, family)
        if joined_type(path.own_type, lake_type) != lake_type:
            return _with_other_texts(made, lake_type)
        return replace(made, values=held_as(made.values, arrow_type(lake_type)))
    steps = path.steps
    if stored is None:
        cells = Cells.of(pa.nulls(count, arrow_type(lake_type)), texts)
    elif steps and isinstance(steps[0].change, ColumnModified):
        cells = _read(stored, texts, _lake_type(steps[0].change.old), path.zone)
    else:
        cells = _read(stored, texts, lake_type, path.zone)
    for step in steps:
        if isinstance(step.change, ColumnAdded):
            cells = added_cells(step.change, count, at=step.time)
        elif stored is not None or path.origin is None:
            made = modified_cells(cells, step.change.old, step.change.new, family=family)
            is_told = isinstance(step, ToldStep)
            cells = _with_new_values(cells, made, _lake_type(step.change.new), "") if is_told else made
    return _in_type(cells, lake_type, path.zone)


def _with_other_texts(cells: Cells, lake_type: str) -> Cells:
    """Return values in a type that need not hold them.

    A value that has another text in it becomes its text.
    """
    shown = as_texts(cells).values
    values, _ = read_back(cells.values, lake_type)
    same = as_mask(pc.fill_null(pc.equal(held_as(values, pa.string()), shown), False))
    return replace(cells, values=with_nulls(values, ~same), texts=with_nulls(shown, same))


def _clocks(stored: pa.Array, lake_type: str, zone: str) -> tuple[pa.Array, Mask | None] | None:
    """Return stored instants as wall clocks of a zone, or the reverse, and the values of neither.

    None stands for any other type, and for values that no setting stores otherwise.
    """
    is_text = pa.types.is_string(stored.type) or pa.types.is_binary(stored.type)
    if not zone or not (is_text or pa.types.is_timestamp(stored.type)):
        return None
    texts = (stored if is_text else held_as(stored, pa.string())).view(pa.binary())
    if lake_type == "timestamp":
        return parse(texts, lake_type, zone=zone)
    if lake_type != "timestamp_ntz":
        return None
    are_instants = as_mask(pc.ends_with(texts, pattern=b"+00:00"))
    clocks, bad = parse(with_nulls(texts, are_instants), lake_type)
    instants, other = parse(with_nulls(texts, ~are_instants), "timestamp")
    both = [one for one in (bad, other) if one is not None]
    return pc.coalesce(clocks, clocks_in(instants, zone)), np.logical_or.reduce(both) if both else None


def _with_new_values(before: Cells, behind: Cells, lake_type: str, zone: str) -> Cells:
    """Return the values behind a step, and those that were of its new type already.

    They did not fit the old one.
    """
    if before.texts.null_count == len(before.texts):
        return behind
    shown = from_texts(before.texts, lake_type)
    values, bad = _clocks(shown, lake_type, zone) or read_back(shown, lake_type)
    texts = pa.nulls(len(values), pa.string()) if bad is None else with_nulls(before.texts, ~bad)
    return behind.with_others(Cells.of(values, texts), as_mask(before.texts.is_valid()))


def _lake_type(column: SchemaColumn) -> str:
    kind = server_type(column)
    return "string" if kind is None else kind.lake_type


def _read(stored: pa.Array, texts: pa.Array | None, lake_type: str, zone: str) -> Cells:
    """Return stored values as values of a type; any other value becomes a text that does not fit.

    A text that did not fit the type in which the values are stored becomes a value where it fits this one.
    """
    values, bad = _clocks(stored, lake_type, zone) or read_back(stored, lake_type)
    cells = Cells.of(values, texts)
    if not stored.type.equals(values.type):
        cells = _with_new_values(cells, cells, lake_type, zone)
    if bad is None:
        return cells
    shown, _ = read_back(held_as(stored, pa.string()) if not pa.types.is_binary(stored.type) else stored, "string")
    kept = pa.array([one if is_bad else before for one, is_bad, before in zip(
        shown.to_pylist(), bad.tolist(), cells.texts.to_pylist(), strict=True)], pa.string())  # fmt: skip
    return replace(cells, texts=kept)


def _in_type(cells: Cells, lake_type: str, zone: str) -> Cells:
    """Return values in the type of their lake table, which a declaration may have made another one."""
    if cells.values.type.equals(arrow_type(lake_type)):
        return cells
    made = _read(cells.values, cells.texts, lake_type, zone)
    return Cells(made.values, made.texts, cells.unknown, cells.filled)


def is_read_as_it_stands(path: ValuePath, stored_type: str | None, lake_type: str) -> bool:
    """Return whether a stored column is read as it stands, under another name, place or wider type.

    ``stored_type`` is None where the column is not stored.
    """
    if not path.keeps_values:
        return False
    return path.origin is None or stored_type is None or widened(stored_type, lake_type) == lake_type
