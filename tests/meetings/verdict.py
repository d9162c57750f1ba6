"""The tables of a lake held against the views of a database, and what counts as a finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from dts_assets.errors import NothingFoundError
from dts_assets.errors.removed_rows import RowsRemovedError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.moments import tables_at
from dts_assets.flows.schema_history import RULES
from dts_assets.flows.stored_statements import stored_statements
from dts_assets.flows.unproven import unproven_tables
from dts_assets.model.added_columns import DELETED_AT
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import AtGtid
from dts_assets.wire.columns.casts import arrow_type
from dts_assets.wire.ddl.schema_history import schema_history
from dts_assets.wire.ddl.table_schemas import folded
from dts_emulator.judge.comparison import COORDINATES
from tests.dts_emulator.judged_histories import are_altered, faults_of_histories
from tests.dts_emulator.server_lives import KEY_UNKNOWN, Life, one_of
from tests.flows.harness import Harness
from tests.meetings.cases import Case
from tests.meetings.copying import COPIED
from tests.meetings.expected import OneOf, Past, View, views_of
from tests.meetings.features import RENAMED, Feature, lake_table, settings_of

F = Feature
ADDED = (*COORDINATES, DELETED_AT)
NEW = "_new_columns"
MAY_KNOW_KEYS = frozenset({F.MERGE, F.SETS, F.RULES, F.FILTER, F.MAPPING, F.COPIES, F.MINIMAL})
"""Features with which the lake may know keys that the database's side takes for unknown, or lacks the rows."""


@dataclass
class Verdict:
    """What differs, in words, and how much was compared."""

    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge(
    harness: Harness, case: Case, lives: Mapping[int, Life], gtids: Mapping[int, Sequence[str]], folder: Path
) -> Verdict:
    """Compare everything that a lake has with what the databases had."""
    found, pipeline = Verdict(), harness.pipeline
    still = {one.table: one.reason for one in pipeline.ledger.paused_tables()}
    for table, reason in still.items():
        label = _documented(table, reason, case)
        if label:
            found.counts[label] += 1
        else:
            found.faults.append(f"paused: {table}: {reason}")
    found.faults += [f"quarantine: {row['reason']}" for row in harness.rows("quarantine")]
    copied = {one.table for one in pipeline.ledger.copied_tables() if one.window_start is not None}
    past = Past.of(lives, keeps_deleted=F.SOFT in case.features, copied=copied)
    settings = settings_of(case.features, case.seed)
    now = {number: life.moments[-1].tables for number, life in lives.items()}
    views = views_of(now, case.features, settings, past)
    unproven = {**unproven_tables(pipeline).results}
    for reason in unproven.values():
        found.counts[f"not proven: {reason.split(': ', 1)[-1][:60]}"] += 1
    views = {table: view for table, view in views.items() if table not in unproven and table not in still}
    known = set(known_tables(pipeline)) - set(unproven) - set(still)
    snapshots = {table: pipeline.lake.scan(pipeline.table_path("snapshot", table)) for table in known}
    _compare(
        found,
        "snapshot",
        {one: rows for one, rows in snapshots.items() if rows is not None},
        views,
        case.features,
        past,
    )
    if F.HISTORY in case.features:
        _histories(found, harness, case, lives, {*unproven, *still})
    if F.MOMENTS in case.features and len(lives) == 1:
        _moments(found, harness, case, lives[1], gtids[1], past, folder)
    return found


def _documented(table: TableId, reason: str, case: Case) -> str:
    """Why a table stands still as docs/ says; empty where it should not."""
    names = {f"{table.database}.{table.table}", ".".join(_source_of(table))}
    became = any(
        re.search(r"RENAME T|CREATE TABLE .* LIKE ", one.sql) and any(name in one.sql for name in names)
        for one in case.said
    )
    is_shared = bool({F.SETS, F.MERGE} & case.features)
    known = (
        ("rows of several primary keys", is_shared, "different primary keys"),  # docs/shards.md
        ("columns of a type that no rule takes", F.RULES in case.features, "makes texts"),  # docs/rules.md
        ("columns of a type that no rule takes", F.RULES in case.features, "could not pass its rules"),
        ("keys under a rule", F.RULES in case.features, "a column of its primary key"),  # docs/rules.md
        ("keys of frozen tables", F.FREEZE in case.features, "its columns are frozen"),  # docs/schema-changes.md
        # docs/snapshots.md: the layout of a merged table follows no names; another table, or one made like it, has its own
        ("layouts of columns that are gone", is_shared or became, "its layout names the column"),
        # docs/rules.md: one filter for all rows of a table, and another table brings columns of its own
        ("filters of columns that are gone", is_shared or became, "no column is called so"),
        ("filters of columns that are gone", is_shared or became, ", which its row filter needs"),
        ("filters of columns that are gone", is_shared or became, "events lack a column of its row filter"),
        (
            "filters of columns of two names",
            bool({F.KEEP, F.HISTORY} & case.features),
            "which its rows have by both names",
        ),
        (
            "filters of columns of two names",
            F.HISTORY in case.features,
            "a name that no event of the table has reported",
        ),
        # docs/rules.md: a merge cannot judge a stored row by a column that has another name there
        ("filters of partial images", F.MINIMAL in case.features, "and some images lack columns"),
        ("filters of partial images", F.MINIMAL in case.features, "no primary key finds the row"),
    )
    return next((label for label, may_be, words in known if may_be and words in reason), "")


def _source_of(table: TableId) -> tuple[str, str]:
    """The name at the source of a table that may have another one in the lake."""
    name = (table.database, table.table)
    return next((old for old, new in RENAMED.items() if new == name), name)


def _moments(
    found: Verdict, harness: Harness, case: Case, life: Life, gtids: Sequence[str], past: Past, folder: Path
) -> None:
    random, settings = Random(f"{case.seed} moments"), settings_of(case.features, case.seed)
    chosen = [one for one in life.moments if one.end]
    for number, moment in enumerate(random.sample(chosen, min(3, len(chosen)))):
        at = AtGtid(gtids[moment.end - 1])
        try:
            made = tables_at(harness.pipeline, at, folder / f"moment_{number}")
        except RowsRemovedError:
            found.counts["moments whose entries have left"] += 1
            continue
        except NothingFoundError as error:
            if "the last cut" in str(error):  # a window that the end of a capture closes counts as a whole
                found.counts["moments after the last cut"] += 1
            else:
                found.faults.append(f"moment: {error}")
            continue
        documented = {
            one: label for one, fault in made.failed.items() if (label := _documented(one, fault.reason, case))
        }
        found.counts.update(f"{label}, at a moment" for label in documented.values())
        wrong = [f"moment: {one}: {fault.reason}" for one, fault in made.failed.items() if one not in documented]
        found.faults += wrong
        views = views_of({1: moment.tables}, case.features, settings, past)
        left_out = {*made.paused, *made.unproven, *documented}
        if F.COPIES in case.features:  # docs/copies.md: as of a moment before a bootstrap nobody knows the rows
            left_out.add(lake_table(COPIED, case.features))
        rows = {table: one.scan().to_arrow() for table, one in made.tables.items() if table not in left_out}
        views = {table: view for table, view in views.items() if table not in left_out}
        _compare(found, f"moment {at} behind {moment.sql[:60]}", rows, views, case.features, past)


def _histories(
    found: Verdict, harness: Harness, case: Case, lives: Mapping[int, Life], unproven: Collection[TableId]
) -> None:
    """The versions that have not ended are the rows of the snapshot."""
    pipeline = harness.pipeline
    named = " ".join(one.sql for one in case.said if one.sql.startswith(("ALTER", "RENAME")))
    is_shared = bool({F.MERGE, F.SETS} & case.features)
    altered = _altered_bags(harness, case, lives)
    for table in known_tables(pipeline):
        if table in unproven:
            continue
        if table in altered:
            found.counts["histories of altered tables without a key"] += 1
            continue
        if is_shared and _source_of(table)[1] in named:
            continue  # docs/history.md: statements change no version of merged tables, and of those of several sets
        versions = [row for row in harness.rows("history", *table.path) if row["_valid_to"] is None]
        rows = [row for row in harness.rows("snapshot", *table.path) if row.get(DELETED_AT) is None]
        found.counts["versions"] += len(versions)
        if len(versions) != len(rows):
            found.faults.append(f"history of {table}: {len(versions)} versions have not ended, {len(rows)} rows")
        elif rows and not is_shared:
            _same_values(found, harness, case, table, versions, rows)
    strict = {F.COPIES, F.MERGE, F.SETS, F.RULES, F.FILTER, F.MAPPING, F.RENAME, F.FAILOVER}
    if not strict & case.features:
        judged = faults_of_histories(harness, lives[1])
        found.counts["values of histories"] += judged.counts["values"]
        found.faults += [f"history: {one}" for one in judged.faults if not one.startswith(("quarantine", "paused"))]


def _same_values(
    found: Verdict,
    harness: Harness,
    case: Case,
    table: TableId,
    versions: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Rows are those of open versions in columns of one type, whose values no statement converted."""
    said = [one.sql for one in case.said if "CONVERT TO" in one.sql or "CHARACTER SET" in one.sql]
    if said:
        return
    words = (re.findall(r"(?:MODIFY|CHANGE)(?: COLUMN)? `?(\w+)`?(?: `?(\w+)`?)?", one.sql) for one in case.said)
    converted = {folded(name) for some in words for pair in some for name in pair}
    if {F.KEEP, F.FREEZE} & case.features:  # docs/schema-changes.md: a kept column is NULL in every row
        dropped = (re.findall(r"DROP(?: COLUMN)? `?(\w+)`?", one.sql) for one in case.said)
        converted |= {folded(name) for some in dropped for name in some}
    if F.FREEZE in case.features:  # docs/schema-changes.md: a frozen column has its former name in the snapshot
        renamed = (re.findall(r"RENAME COLUMN `?(\w+)`? TO `?(\w+)", one.sql) for one in case.said)
        converted |= {folded(name) for some in renamed for pair in some for name in pair}
    paths = [harness.pipeline.table_path(layer, table) for layer in ("snapshot", "history")]
    present, ever = (_schema_of(harness, path) for path in paths)
    same = [one.name for one in present if one.name in ever.names and ever.field(one.name).type == one.type]
    names = [one for one in same if one[0] != "_" and folded(one) not in converted]

    def shown(row: Mapping[str, Any]) -> str:
        # Decision 0035: texts may stand under a former spelling of their column.
        texts = {folded(name): text for name, text in row.get("_invalid") or ()}
        return repr([(name, texts.get(folded(name), row[name])) for name in names])

    mine, others = Counter(map(shown, rows)), Counter(map(shown, versions))
    found.counts["values of versions"] += len(rows) * len(names)
    if mine != others:
        found.faults.append(f"history of {table}: rows {mine - others}, open versions {others - mine}")


def _schema_of(harness: Harness, path: Sequence[str]) -> pa.Schema:
    table = harness.pipeline.lake.scan(tuple(path))
    assert table is not None, "its rows have been read"
    return table.schema


def _altered_bags(harness: Harness, case: Case, lives: Mapping[int, Life]) -> set[TableId]:
    """docs/history.md: rows without a key that had other columns do not end their versions."""
    tables = [pair for life in lives.values() for moment in life.moments for pair in moment.tables.items()]
    bags = {lake_table(source, case.features) for source, held in tables if not held.schema.key}
    states = schema_history(list(stored_statements(harness.pipeline, None)), (), rules=RULES)
    return bags & {lake_table(source, case.features) for source, some in states.items() if are_altered(some)}


def _compare(
    found: Verdict,
    what: str,
    snapshots: Mapping[TableId, pa.Table],
    views: Mapping[TableId, View],
    features: Collection[Feature],
    past: Past,
) -> None:
    for table in sorted(snapshots.keys() | views.keys()):
        view, snapshot, name = views.get(table), snapshots.get(table), f"{what} {table}"
        if snapshot is None:
            if view is not None and view.rows and not view.doubt:
                found.faults.append(f"{name}: no table, {len(view.rows)} rows in the database")
        elif view is None:
            if what == "snapshot" and _rows(snapshot):
                found.faults.append(f"{name}: {len(_rows(snapshot))} rows, no table in the database")
        elif F.FREEZE in features and table.database in ("d", "sales"):
            _compare_frozen(found, name, snapshot, view)
        else:
            _compare_table(
                found,
                name,
                snapshot,
                view,
                past.left_out if F.RULES in features else (),
                keeps=F.KEEP in features,
                must_name=what == "snapshot" and not MAY_KNOW_KEYS & {*features},
            )


def _compare_table(
    found: Verdict,
    name: str,
    snapshot: pa.Table,
    view: View,
    left_out: Collection[str],
    *,
    keeps: bool,
    must_name: bool = False,
) -> None:
    names = [one for one in snapshot.column_names if one not in ADDED]
    view = view if view.sources == 1 else view.spelled(names)
    if view.several_keys:  # docs/shards.md: it has all columns that events told, and no others
        names = [one for one in names if one in view.columns]
        view = replace(view.only(names), loose=frozenset(names))
    # docs/rules.md: a column that gets the name of a dropped one is left out under its name of before, too
    view = view.only([one for one in view.columns if one in names or folded(one) not in left_out])
    wanted = list(view.columns)
    kept = names[len(wanted) :] if keeps and view.sources == 1 else []
    same = names[: len(names) - len(kept)]
    # As of a moment before its first row, a table may have its columns in the order of later ones.
    is_ordered = view.sources == 1 and not view.several_keys and (name.startswith("snapshot") or bool(view.rows))
    if (same != wanted) if is_ordered else (sorted(same) != sorted(wanted)):
        found.faults.append(f"{name}: columns {same}, {wanted} in the database")
        return
    # As of a moment a column has the type that holds all of its values, those of later moments, too.
    for column, kind in view.columns.items() if name.startswith("snapshot") else ():
        told = _short(snapshot.schema.field(column).type)
        if column not in view.loose and told != arrow_type(kind):
            found.faults.append(f"{name}.{column}: {told}, {kind} in the database")
    found.counts["tables"] += 1
    if view.doubt == KEY_UNKNOWN and must_name:
        found.faults.append(f"{name}: proven, though a key is not known in the database")
    if view.doubt:
        found.counts["doubted"] += 1
        return
    rows = _rows(snapshot)
    left = list(rows)
    for row, unknown in sorted(zip(view.rows, view.unknown, strict=True), key=lambda one: len(one[1])):
        fitting = [one for one in left if _is(one, row, unknown)]
        # A value that is not known, or one of several, also fits other rows: the row with most of its own values comes first.
        match = max(fitting, key=lambda one: _own_values(one, row), default=None)
        if match is None:
            hint = f" (not known: {sorted(unknown)})" if unknown else ""
            found.faults.append(f"{name}: no row {_shown(row)}{hint} among {[_of(one, row) for one in left][:6]}")
            continue
        left.remove(match)
        found.counts["values"] += len(row)
        found.counts["not known"] += len(unknown)
    found.faults += [f"{name}: a row too many, {dict(list(one.items())[:12])}" for one in left]
    for column in kept:
        if any(row[column] is not None for row in rows):
            found.faults.append(f"{name}: the kept column {column} has values")


def _compare_frozen(found: Verdict, name: str, snapshot: pa.Table, view: View) -> None:
    """Every value stands in some column of the first schema or in the map of new columns, as its text."""
    if view.doubt or view.loose or any(view.unknown):
        found.counts["doubted"] += 1
        return
    names = [one for one in snapshot.column_names if one not in ADDED and one != NEW]
    rows = [
        Counter([_text(row[one]) for one in names if row[one] is not None] + [value for _, value in row.get(NEW) or ()])
        for row in _rows(snapshot)
    ]
    wanted = [Counter(_text(value) for value in row.values() if value is not None) for row in view.rows]
    found.counts["tables"] += 1
    if any(isinstance(value, OneOf | tuple) for row in view.rows for value in row.values()):
        if len(rows) != len(wanted):
            found.faults.append(f"{name}: {len(rows)} rows, {len(wanted)} in the database (frozen)")
        return
    for row in wanted:
        if row not in rows:
            found.faults.append(f"{name}: no row with {sorted(row)} among {[sorted(one) for one in rows][:6]} (frozen)")
        else:
            rows.remove(row)
    found.faults += [f"{name}: a row too many, {sorted(one)} (frozen)" for one in rows]


def _text(value: Any) -> str:
    """The text of a value in a map: a number has no zero alone after its point, and a power of ten from 1e15 on."""
    if isinstance(value, float):
        return str(pa.scalar(value).cast(pa.string())).removesuffix(".0")
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value).removesuffix(".0")


def _rows(snapshot: pa.Table) -> list[dict[str, Any]]:
    """The rows that live, with the source's text for values that no lake type holds."""
    found = []
    for row in snapshot.to_pylist():
        if row.get(DELETED_AT) is None:
            texts = dict(row.get("_invalid") or ())
            found.append({name: one_of(value, texts.get(name)) for name, value in row.items() if name not in ADDED})
    return found


def _is(found: Mapping[str, Any], wanted: Mapping[str, Any], unknown: frozenset[str]) -> bool:
    return all(
        (found[name] is None and name in unknown)
        or (value.takes(found[name]) if isinstance(value, OneOf) else found[name] == value)
        for name, value in wanted.items()
    )


def _own_values(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> int:
    return sum(found[name] == (value.plain if isinstance(value, OneOf) else value) for name, value in wanted.items())


def _of(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in wanted}


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "one of several" if isinstance(value, OneOf) else value for name, value in row.items()}


def _short(kind: pa.DataType) -> pa.DataType:
    """A type without the long offsets that a reader gives where there are no rows."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
