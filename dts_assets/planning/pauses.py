"""Tables that stand still: why they do, which windows lack them, and the work when they are resumed.

A table that failed and a table that a person paused are treated alike. All its layers stay where they are, and the mark of each
window that is made meanwhile names the table. A window that names a table which is not paused any more is stale.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.ledger_rows import Cut, MissingTable, PausedBy, PausedTable
from dts_assets.model.tables import TableId

WITHOUT_COPY = "it was removed, and the rows of its copy went with it"
"""The beginning of the reason of a table that stands still until it is copied again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed step of one table.

    ``layer`` is the layer of the step, ``place`` the kind and the place of the error, ``sentence`` its text if it is of our tree.
    ``is_own`` says that the table's settings or statements cause it, so that it stays when the run is repeated.
    """

    layer: str
    place: str
    sentence: str = ""
    is_own: bool = False

    @property
    def reason(self) -> str:
        """The reason that a person is told."""
        return self.sentence or self.place


def shared_fault(tried: Collection[TableId], faults: Mapping[TableId, Fault]) -> Fault | None:
    """Return the fault that all tables of a step share; None if tables have faults of their own.

    ``tried`` are the tables that the step had work for. A single table shares its fault with none. Nor do tables whose settings
    or statements cause it: one row filter may be of all of them.
    """
    found = [faults[table] for table in tried if table in faults and not faults[table].is_own]
    one_place = len({fault.place for fault in found}) == 1
    return found[0] if len(tried) > 1 and len(found) == len(tried) and one_place else None


def pauses_of(
    faults: Mapping[TableId, Fault], *, since: datetime, first_window: datetime | None
) -> tuple[PausedTable, ...]:
    """Return the pauses of the tables that failed in a run.

    ``first_window`` is the start of the run's first window.
    """
    return tuple(
        PausedTable(table, fault.layer, fault.reason, PausedBy.FAILURE, since, first_window)
        for table, fault in sorted(faults.items())
    )


def new_pauses(rows: Iterable[PausedTable], stored: Iterable[PausedTable]) -> tuple[PausedTable, ...]:
    """Return the pauses of tables that do not stand still yet."""
    known = {row.table for row in stored}
    return tuple(row for row in rows if row.table not in known)


def resumed_in(mark: Cut, paused: Collection[TableId]) -> tuple[MissingTable, ...]:
    """Return the tables that a window lacks although they are not ``paused`` any more.

    The window is made again for them.
    """
    return tuple(one for one in mark.paused if one.id not in paused)


def resumed_inputs(mark: Cut, paused: Collection[TableId]) -> tuple[str, ...]:
    """Return the resumed tables of a window as texts: ``resumed:shopdb.orders=2026-01-05T07:00:00+00:00``.

    They stand beside the inputs. Without them a request for the window would be equal to the one that made it first. The
    instant of the pause tells one resumption from the next.
    """
    return tuple(f"resumed:{one.id}={one.since.isoformat()}" for one in resumed_in(mark, paused))


def catches_up(stored: Cut | None, mark: Cut, *, paused: Collection[TableId]) -> frozenset[TableId] | None:
    """Return the resumed tables for which alone a window is made again.

    None stands for all tables.

    The rows of all others stand as they are: the inputs are those of the stored mark. This does not hold of a window that was
    made while it was open, whose mark names the runs that wrote its files.
    """
    if stored is None or stored.code_version != mark.code_version or set(stored.inputs) != set(mark.inputs):
        return None
    if stored.made_by or stored.open_in or mark.open_in:
        return None
    return frozenset(one.id for one in resumed_in(stored, paused)) or None


def with_missing(mark: Cut, paused: Iterable[PausedTable]) -> Cut:
    """Return a mark that names paused tables, too, beside those that it names already."""
    known = {one.id for one in mark.paused}
    added = [MissingTable.of(row) for row in sorted(paused, key=lambda row: row.table) if row.table not in known]
    return replace(mark, paused=(*mark.paused, *added)) if added else mark


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a table: its pause or removal, and the starts of the windows that lack it.

    The pause is None while the table goes on. One that is ``left_out`` by the settings stays in the lake as it is.
    """

    table: TableId
    paused: PausedTable | None
    lacking: frozenset[datetime]
    left_out: bool = False

    @property
    def state(self) -> str:
        """The state in words for a person."""
        if self.paused is not None:
            return "removed" if self.paused.is_removed else "paused"
        if self.left_out:
            return "left out by the settings"
        return "catches up with the next run" if self.lacking else "goes on"


def standings(
    tables: Iterable[TableId],
    paused: Iterable[PausedTable],
    marks: Iterable[Cut],
    *,
    left_out: Collection[TableId] = (),
) -> tuple[Standing, ...]:
    """Return the state of every table, by name.

    ``left_out`` are those in the lake that the settings do not take any more. A paused table is among them even if it has none.
    """
    still = {row.table: row for row in paused}
    lacking, without = windows_lacking(marks), frozenset(left_out)
    return tuple(
        Standing(table, still.get(table), lacking.get(table, frozenset()), table in without)
        for table in sorted({*tables, *still, *without})
    )


def removed(
    tables: Collection[TableId], stored: Iterable[PausedTable], *, reason: str, since: datetime
) -> tuple[PausedTable, ...]:
    """Return the pauses once some tables are removed, those that stood still for another reason among them."""
    others = [row for row in stored if row.table not in tables or row.is_removed]
    known = {row.table for row in others}
    added = [PausedTable(one, "", reason, PausedBy.REMOVAL, since) for one in sorted(tables) if one not in known]
    return (*others, *added)


def lacking_from_now_on(
    marks: Iterable[Cut], tables: Iterable[TableId], *, reason: str, since: datetime
) -> tuple[Cut, ...]:
    """Return marks that name tables as missing which are added again after a removal.

    Their windows are made again for these tables alone.
    """
    rows = [PausedTable(table, "", reason, PausedBy.REMOVAL, since) for table in tables]
    return tuple(with_missing(mark, rows) for mark in marks)


def resume_command(table: TableId) -> str:
    """Return the command with which a person lets a table go on."""
    return f"dts-assets tables resume {shlex.quote(str(table))}"


def add_command(table: TableId) -> str:
    """Return the command with which a person brings a removed table back."""
    return f"dts-assets tables add {shlex.quote(str(table))}"


def copy_command(word: str, subscription: str, table: TableId) -> str:
    """Return the command with which a person copies a table; ``word`` is ``copy`` or ``resync``."""
    option = "--table " if word == "copy" else ""
    return f"dts-assets {word} {shlex.quote(subscription)} {option}{shlex.quote(str(table))}"


def windows_lacking(marks: Iterable[Cut]) -> dict[TableId, frozenset[datetime]]:
    """Return the starts of the windows that lack each table."""
    found: dict[TableId, set[datetime]] = {}
    for mark in marks:
        for one in mark.paused:
            found.setdefault(one.id, set()).add(mark.window.start)
    return {table: frozenset(starts) for table, starts in found.items()}
