"""What the tables of a lake have to be by the rows of the database: a second, small view of merges, filters, rules and types."""

from __future__ import annotations

import hmac
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pyarrow as pa

from dts_assets.model.columns import joined_type
from dts_assets.model.tables import TableId
from dts_assets.stages.server_types import server_type
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.columns.lake_texts import held_as
from dts_assets.wire.ddl.effects import EffectKind
from dts_assets.wire.ddl.schema_history import parsed_statement
from dts_assets.wire.ddl.table_schemas import folded
from dts_emulator.source.events import Rows
from tests.dts_emulator.server_lives import Held, Life, kinds_of
from tests.meetings.features import FILTERED, KEY, LIMIT, MASK, PATTERN, RULED, Feature, is_filtered, lake_table

F = Feature
SHARD_COLUMNS = ("_source_database", "_source_table")
SET_COLUMN = "_source_set"


@dataclass(frozen=True)
class OneOf:
    """A value that may be one of several; patterns stand for all texts that match them, ``plain`` is that of the source."""

    values: frozenset[Any]
    patterns: tuple[str, ...] = ()
    plain: Any = None

    def takes(self, found: Any) -> bool:
        """Whether a value is one of them."""
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
        return found in self.values or (
            isinstance(text, str)
            and (text in self.values or any(re.fullmatch(one, text, re.S) for one in self.patterns))
        )


@dataclass
class View:
    """A lake table as it has to be: its columns in order with their lake types, and its rows by the names of columns.

    ``unknown`` has for each row the columns whose value nobody knows; ``loose`` are columns whose type is not compared. Rows of
    ``sources`` tables may have ``several_keys``, now or before.
    """

    columns: dict[str, str]
    rows: list[dict[str, Any]]
    unknown: list[frozenset[str]]
    doubt: str | None = None
    loose: frozenset[str] = frozenset()
    sources: int = 1
    several_keys: bool = False

    def spelled(self, names: Iterable[str]) -> View:
        """The view with names of columns as they are spelled elsewhere: of parts the newest one tells them."""
        others = {folded(one): one for one in names}
        own = {one: others.get(folded(one), one) for one in self.columns}
        return View(
            {own[one]: kind for one, kind in self.columns.items()},
            [{own[one]: value for one, value in row.items()} for row in self.rows],
            [frozenset(own[one] for one in some) for some in self.unknown],
            self.doubt,
            frozenset(own.get(one, one) for one in self.loose),
            self.sources,
            self.several_keys,
        )

    def only(self, names: Collection[str]) -> View:
        """The view with some of its columns."""
        columns = {one: kind for one, kind in self.columns.items() if one in names}
        return replace(
            self, columns=columns, rows=[{name: row[name] for name in columns} for row in self.rows],
            unknown=[one & columns.keys() for one in self.unknown],
        )  # fmt: skip


@dataclass
class Past:
    """What lives told of columns with rules: all texts that ever stood in some column, and columns that statements touched.

    ``left_out`` are the names that columns had before that of a rule that drops them, and this name.
    ``seen`` has the tables of each set of which an event told, or which got the name of such a table; None stands for all.
    ``keyed_anew`` has those of each set whose key got other columns, or values of another kind, since they were created; at
    any time where deleted rows stay. There ``left_keys`` has the keys of tables that are gone, too.
    """

    texts: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    seen: dict[int, frozenset[TableId]] | None = None
    keyed_anew: dict[int, frozenset[TableId]] = field(default_factory=dict)
    left_keys: set[tuple[TableId, frozenset[str]]] = field(default_factory=set)

    @classmethod
    def of(cls, lives: Mapping[int, Life], *, keeps_deleted: bool, copied: Collection[TableId] = ()) -> Past:
        """The past of lives; tables that were ``copied`` are known as if an event had told of them."""
        found = cls(seen={number: frozenset(_known(life, copied)) for number, life in lives.items()})
        found.keyed_anew = {number: frozenset(_keyed_anew(life, keeps_deleted)) for number, life in lives.items()}
        found.left_keys = {one for life in lives.values() for one in _left_keys(life)} if keeps_deleted else set()
        renamed = list[tuple[str, str]]()
        for life in lives.values():
            for transaction in life.transactions:
                for event in transaction.events:
                    if isinstance(event, Rows):
                        found.texts |= set(_texts_of(event))
            for moment in life.moments:
                words = {folded(one) for one in re.findall(r"\w+", moment.sql)}
                if not moment.sql.startswith(("CREATE TABLE", "SET ", "DELETE")) and words & set(RULED):
                    found.touched |= words
                renamed += re.findall(r"(?:RENAME COLUMN|CHANGE) (\w+) (?:TO )?(\w+)", moment.sql)
        named = set[str]()
        new = set(RULED)
        while new:  # a statement gives values that were under a rule another name, and another one later
            named |= new
            new = {folded(to) for name, to in renamed if folded(name) in new} - named
        found.touched |= named - set(RULED)
        now = {"secret"}
        while now:
            found.left_out |= now
            now = {folded(old) for old, new in renamed if folded(new) in now} - found.left_out
        found.texts |= {"default 12", "7", "5"}  # of defaults that no event tells
        return found


def _known(life: Life, copied: Collection[TableId]) -> set[TableId]:
    """The tables that the lake knows in the end of one set: events reported them, or a statement gave their name to one."""
    events = [event for one in life.transactions for event in one.events]
    found = {*copied, *(TableId(one.table.database, "", one.table.table) for one in events if isinstance(one, Rows))}
    effects = [one for each in life.moments for one in parsed_statement(each.sql, each.database, "").effects]
    renames = [(one.tables[0], one.tables[-1]) for one in effects if one.kind is EffectKind.RENAME_TABLE]
    while more := {new for old, new in renames if old in found} - found:
        found |= more
    return found


def _keyed_anew(life: Life, keeps_deleted: bool) -> set[TableId]:
    keys, found = dict[TableId, list[str]](), set[TableId]()
    for moment in life.moments:
        now = {table: _key_kinds(held) for table, held in moment.tables.items()}
        changed = {table for table in now if keys.get(table, now[table]) != now[table]}
        found = changed | (found if keeps_deleted else found & now.keys())
        keys = keys | now if keeps_deleted else now
    return found


def _left_keys(life: Life) -> Iterator[tuple[TableId, frozenset[str]]]:
    for before, now in itertools.pairwise(life.moments):
        for table in before.tables.keys() - now.tables.keys():
            yield table, frozenset(map(folded, before.tables[table].schema.key))


def _key_kinds(held: Held) -> list[str]:
    columns = filter(None, map(held.schema.column, held.schema.key))
    return sorted(str(kind.kind) for kind in map(server_type, columns) if kind is not None)


def _texts_of(event: Rows) -> Iterator[str]:
    for row in event.rows:
        for image in (row.before or (), row.after or ()):
            for value in image:
                if isinstance(value, bytes):
                    yield value.decode("utf-8", "replace")
                elif isinstance(value, int | float | str):
                    yield str(value)


def views_of(
    tables: Mapping[int, Mapping[TableId, Held]], features: Collection[Feature], settings: Mapping[str, Any], past: Past
) -> dict[TableId, View]:
    """The lake tables by the tables of each set."""
    parts: dict[TableId, list[tuple[dict[str, str], View]]] = {}
    keys: dict[TableId, set[frozenset[str]]] = {}
    for number, found in tables.items():
        for table, held in found.items():
            if past.seen is not None and table not in past.seen[number]:
                continue  # docs/shards.md: a shard counts from its first event on
            name, tells = lake_table(table, features), {}
            if F.MERGE in features and name.database == "shop":
                tells = dict(zip(SHARD_COLUMNS, (table.database, table.table), strict=True))
            if F.SETS in features:
                tells[SET_COLUMN] = f"set_{number}"
            view = _view(held, mapped=F.MAPPING in features)
            if is_filtered(name, settings):
                view = _filtered(view)
                # docs/rules.md: an update that brings a row in has no columns but those that it sends.
                if F.MINIMAL in features:
                    hidden = frozenset(view.columns) - {*held.schema.key, *FILTERED}
                    view = replace(view, unknown=[hidden | one for one in view.unknown])
            if F.RULES in features:
                view = _ruled(view, past)
            parts.setdefault(name, []).append((tells, view))
            keys.setdefault(name, set()).add(frozenset(map(folded, held.schema.key)))
    shared = {table for table, some in parts.items() if any(tells for tells, _ in some)}
    for table, key in past.left_keys:
        keys.setdefault(lake_table(table, features), set()).add(key)
    keyed_anew = {lake_table(one, features) for some in past.keyed_anew.values() for one in some} & shared
    several = keyed_anew | {name for name, some in keys.items() if len(some) > 1}
    return {table: replace(_union(some), several_keys=table in several) for table, some in parts.items()}


def _view(held: Held, *, mapped: bool) -> View:
    kinds = kinds_of(held.schema)
    columns = {name: kind.lake_type for name, kind in kinds.items()}
    rows = [dict(zip(held.schema.names, row, strict=True)) for row in held.rows]
    if mapped:
        types = {one.name: one.type for one in held.schema.columns}
        for name, kind in types.items():
            columns[name], rows = _mapped(kind, columns[name], name, rows)
    return View(columns, rows, list(held.unknown), held.doubt)


def _mapped(kind: str, lake_type: str, name: str, rows: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    if kind == "tinyint(1)":
        return "boolean", [{**row, name: _boolean(row[name])} for row in rows]
    if kind.startswith("bigint") and "unsigned" in kind:
        return "bigint", [{**row, name: _within(row[name])} for row in rows]
    if kind.startswith("datetime"):
        return "timestamp", [{**row, name: _instant(row[name])} for row in rows]
    return lake_type, rows


def _boolean(value: Any) -> Any:
    return None if value is None else bool(value) if value in (0, 1) else ("no value", str(value))


def _within(value: Any) -> Any:
    return value if value is None or value < 1 << 63 else ("no value", str(value))


def _instant(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _filtered(view: View) -> View:
    """The rows that pass; where a row has no such column nobody knows."""
    name = next((one for one in FILTERED if one in view.columns), None)
    if name is None:
        return View(view.columns, [], [], "the column of the filter is not there", view.loose)
    if any(name in one for one in view.unknown):
        return View(view.columns, view.rows, view.unknown, "the column of the filter is not known", view.loose)
    kept = [place for place, row in enumerate(view.rows) if row[name] is not None and row[name] < LIMIT]
    return View(
        view.columns, [view.rows[one] for one in kept], [view.unknown[one] for one in kept], view.doubt, view.loose
    )


def _ruled(view: View, past: Past) -> View:
    columns, loose = {}, set()
    for name, kind in view.columns.items():
        if folded(name) == "secret":
            continue
        columns[name] = "string" if folded(name) in RULED else kind
        if folded(name) in past.touched:
            loose.add(name)
    rows = [{name: _ruled_value(folded(name), row[name], past) for name in columns} for row in view.rows]
    unknown = [frozenset(one & columns.keys()) for one in view.unknown]
    return View(columns, rows, unknown, view.doubt, frozenset(loose))


def _ruled_value(name: str, value: Any, past: Past) -> Any:
    if name in past.touched:
        made = {_by_rule(rule, text) for rule in ("mail", "phone") for text in past.texts}
        tokens = tuple({_token(text) for text in past.texts})
        return OneOf(frozenset({value, None, *made}), tokens, value)
    if value is None or name not in RULED:
        return value
    return OneOf(frozenset(), (_token(value),)) if name == "card" else _by_rule(name, value)


def _by_rule(name: str, text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), "sha256").hexdigest() if name == "mail" else MASK


def _token(text: str) -> str:
    """A pattern of the text with tokens."""
    return "tok_[0-9a-f]{32}".join(re.escape(part) for part in re.split(PATTERN, text))


def _union(parts: Sequence[tuple[dict[str, str], View]]) -> View:
    """The rows of all parts, each with the columns that tell the part; values in the type that holds all of them."""
    if not any(tells for tells, _ in parts):
        ((_, view),) = parts
        return view
    columns: dict[str, tuple[str, list[str]]] = {}
    for _, view in parts:
        for name, kind in view.columns.items():
            columns.setdefault(folded(name), (name, []))[1].append(kind)
    joined = {key: (name, reduce(joined_type, kinds)) for key, (name, kinds) in columns.items()}
    found = View({name: kind for name, kind in joined.values()}, [], [], sources=len(parts))
    for tells, view in parts:
        found.columns |= dict.fromkeys(tells, "string")
        found.doubt = found.doubt or view.doubt
        found.loose |= view.loose
        for row, unknown in zip(view.rows, view.unknown, strict=True):
            mine = {folded(name): (value, view.columns[name]) for name, value in row.items()}
            whole = {name: _as(*mine.get(key, (None, kind)), kind) for key, (name, kind) in joined.items()}
            found.rows.append({**whole, **tells})
            hidden = {folded(name) for name in unknown}
            found.unknown.append(frozenset(name for name in whole if folded(name) in hidden))
    return found


def _as(value: Any, kind: str, wanted: str) -> Any:
    if value is None or kind == wanted or isinstance(value, tuple):
        return value
    if isinstance(value, OneOf):
        mine = {one for one in value.values if _is_of(one, arrow_type(kind))}
        return replace(value, values=value.values | {_as(one, kind, wanted) for one in mine})
    return held_as(pa.array([value], arrow_type(kind)), arrow_type(wanted))[0].as_py()


def _is_of(value: Any, own: pa.DataType) -> bool:
    """Whether a value that may stand in a column of a type has it: texts by a rule stand in columns of any type."""
    is_text = pa.types.is_string(own) or pa.types.is_binary(own)
    return pa.scalar(value).type == own if isinstance(value, str | bytes) else not is_text
