"""The sentences about a source whose settings or tables let changes go missing, or come as others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from dts_assets.model.source_settings import DeclaredTable, Finding, Follows, SourceSettings
from dts_assets.model.tables import TableId

_NAMED = 20
"""The most tables that a sentence names."""

_ELSEWHERE = ("mrg_myisam", "federated", "connect", "spider")
"""Engines, in small letters, whose rows stand in other tables and change there."""


def find_findings(source: SourceSettings, named: Iterable[TableId] = ()) -> tuple[Finding, ...]:
    """Return what people should know of a source, the worst first: one sentence for each finding.

    ``named`` are tables that should be there.
    """
    found = [*_of_binlog(source.variables, source.tables), *_of_tables(source)]
    if unseen := sorted(set(named) - {one.table for one in source.tables}):
        sentence = (
            f"The account sees no table {_names(unseen)}: nobody has looked at it. Grant SELECT, or look at the name."
        )
        found.append(Finding(Follows.UNPROVEN, sentence))
    order = list(Follows)
    return tuple(sorted(found, key=lambda one: order.index(one.follows)))


def _of_binlog(variables: Mapping[str, str], tables: Iterable[DeclaredTable]) -> Iterator[Finding]:
    told = {name.lower(): value for name, value in variables.items()}
    if not _is_on(told, "log_bin", default=True):
        yield Finding(
            Follows.MISSING,
            "The server writes no binlog (log_bin is OFF): no change reaches the topic, and rows of all tables are missing.",
        )
        return
    if (form := told.get("binlog_format", "ROW").upper()) != "ROW":
        yield Finding(
            Follows.MISSING,
            f"binlog_format is {form}: what the server writes as statements has no rows, so changes of any table are missing. "
            f"Set it to ROW.",
        )
    for name in ("binlog_transaction_compression", "log_bin_compress"):
        if _is_on(told, name):
            yield Finding(
                Follows.MISSING,
                f"{name} is ON: a task that does not read compressed events sends no rows of them, so changes of any table may "
                f"be missing, and events prove no server to copy from. Set it to OFF.",
            )
    with_json = [one.table for one in tables if one.has_json]
    if "PARTIAL_JSON" in told.get("binlog_row_value_options", "").upper() and with_json:
        yield Finding(
            Follows.WRONG,
            f"binlog_row_value_options is PARTIAL_JSON: an update may tell a part of a JSON value alone, so JSON columns of "
            f"{_names(with_json)} are wrong. Set it to the empty text.",
        )
    if (image := told.get("binlog_row_image", "FULL").upper()) != "FULL":
        yield Finding(
            Follows.UNPROVEN,
            f"binlog_row_image is {image}: events lack columns, so in any table a row that the lake does not have yet has NULL "
            f"in them, and is counted among unmatched_updates. Set it to FULL.",
        )


def _of_tables(source: SourceSettings) -> Iterator[Finding]:
    def those(which: Callable[[DeclaredTable], bool]) -> list[TableId]:
        return [one.table for one in source.tables if which(one)]

    # MySQL follows foreign keys above its engines since 9.6, and writes the rows that change so into its binlog.
    tells_children = source.variables.get("innodb_native_foreign_keys", "ON").upper() in ("OFF", "0")
    children = [] if tells_children else [one for one in source.tables if one.parents]
    if children:
        pairs = (f"{one.table} (of {', '.join(map(str, one.parents))})" for one in children)
        yield Finding(
            Follows.WRONG,
            f"Foreign keys with CASCADE, SET NULL or SET DEFAULT change rows of {_listed(pairs)}, and the server writes no event "
            f"of it: rows that go or change so stay in the lake as they were.",
        )
    if versioned := those(lambda one: one.is_versioned):
        yield Finding(
            Follows.WRONG,
            f"System versioning keeps old rows in {_names(versioned)}: a DELETE comes as an UPDATE and an old version as an "
            f"INSERT, so the lake has rows that the source does not show.",
        )
    if elsewhere := those(lambda one: one.engine.lower() in _ELSEWHERE):
        yield Finding(
            Follows.MISSING,
            f"The rows of {_names(elsewhere)} stand in other tables (engines MERGE, FEDERATED, CONNECT, SPIDER): changes that "
            f"are made there are missing.",
        )
    if volatile := those(lambda one: one.engine.lower() == "memory"):
        yield Finding(
            Follows.WRONG,
            f"A restart of the server empties {_names(volatile)} (engine MEMORY) and tells no row of it: the lake may keep rows "
            f"that are gone.",
        )
    if keyless := those(lambda one: not one.has_key):
        yield Finding(
            Follows.UNPROVEN,
            f"{_names(keyless)} without a primary key: rows are matched by all their values, so an update that lacks columns is "
            f"not proven, and verify --repair mends no row.",
        )


def _is_on(variables: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return variables.get(name, "ON" if default else "OFF").upper() in ("ON", "1")


def _names(tables: Iterable[TableId]) -> str:
    return _listed(map(str, tables))


def _listed(names: Iterable[str]) -> str:
    some = list(names)
    more = len(some) - _NAMED
    return ", ".join(some[:_NAMED]) + (f" and {more} more" if more > 0 else "")
