"""Lakes of the cases that a code makes, and all that they hold as texts that can be compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from dts_assets.store.catalog import LakeLocation, open_catalog
from tests.flows.history import END, EVERY, START
from tests.flows.source import write_capture
from tests.versions.captures import NAME, Case
from tests.versions.made_by import Job, Step, add, ask, read, settle

NAMES_OF_RUNS = frozenset({"run", "made_by", "chain"})
"""Fields, at any depth, that name runs. Each run has a random name."""

OF_PROCESSES = frozenset({"leases"})
"""Tables that tell which processes work now, and since when."""

OF_FILES = frozenset({("settled_days", "key")})
"""Columns that are digests of the names of files, which are random."""

BY_NUMBERS_OF_COLUMNS = frozenset({"_sum"})
"""Columns that are computed from the numbers of columns, which follow the order in which columns were found."""

OF_KEPT_TYPES: dict[tuple[str, ...], str] = {("changelog", "d", "t"): "i"}
"""Columns whose type a lake of the base keeps, where a new lake has another one.

``bigint`` beside ``bigint unsigned`` was ``string``, and is ``decimal(20,0)`` in lakes that begin with code version 7.
"""

OF_WRITERS = frozenset({"dts-assets.turns"})
"""Properties that name the processes that wrote last."""

NUMBERS_OF_SNAPSHOTS = frozenset({"changelog_snapshot", "changelog"})
"""Fields of states that have the number of an Iceberg snapshot, which is random."""

MOST_SHOWN = 600
"""The characters of a row that a message shows."""

OWN_PROPERTIES = "dts-assets."
"""The beginning of the names of the product's own properties of tables and of their Iceberg snapshots."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a configuration, the capture that it names, and the pieces by which the capture grows."""

    config: Path
    capture: Path
    pieces: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """The folder of the configuration and of the lake."""
        return self.config.parent

    def begun(self) -> tuple[Step, ...]:
        """The steps with all pieces but the last."""
        return tuple(step for piece in self.pieces[:-1] for step in (add(piece, self.capture), settle()))

    def ended(self) -> tuple[Step, ...]:
        """The steps with the last piece; after them the work is asked for."""
        added = [add(self.pieces[-1], self.capture)] if self.pieces else []
        return (*added, settle(), ask())

    def whole(self) -> tuple[Step, ...]:
        """The steps with all pieces at once."""
        return (*(add(piece, self.capture) for piece in self.pieces), settle(), ask())

    def again(self) -> tuple[Step, ...]:
        """The steps that make a stored lake again: its messages are read again, and all else follows."""
        return (ask(), read(), ask(), settle(), ask())

    def job(self, *steps: Step) -> Job:
        """A job in this place."""
        return Job(self.config, NAME, steps)


def placed(case: Case, folder: Path, pieces: tuple[Path, ...]) -> Place:
    """Write the configuration of a case for a lake in a folder; ``pieces`` are those of :func:`written`."""
    folder.mkdir(parents=True)
    for name, content in case.extra.items():
        (folder / name).write_bytes(content)
    capture = case.capture or folder / "capture"
    end = START + 6 * EVERY if case.is_live else END
    window = {
        "every": f"{EVERY // timedelta(minutes=1)}m", "start": START.isoformat(), "end": end.isoformat(), "live": case.is_live,
    }  # fmt: skip
    subscription = {"window": window, "source_time_zone": "+08:00", **case.settings}
    subscription["source"] = {"capture": {"path": str(capture), "complete": not case.is_live}}
    config = folder / "pipeline.yaml"
    config.write_text(json.dumps({"lake": {"warehouse": "./lake"}, "subscriptions": {NAME: subscription}}))
    return Place(config, capture, pieces)


def written(case: Case, folder: Path) -> tuple[Path, ...]:
    """Write the pieces of a case, each into a folder of its own; none where the capture is there already."""
    if case.capture is not None:
        return ()
    return tuple(
        write_capture(folder / f"{number}", piece, name=f"piece{number}") for number, piece in enumerate(case.pieces)
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """What a table holds: its rows as texts, sorted, and its columns and properties."""

    rows: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


Contents = Mapping[str, Stored]
"""Everything in a lake, by the names of tables: ``windows``, ``changelog.bank.accounts``."""


def contents(place: Place) -> Contents:
    """Return everything that the tables of a lake hold: system tables and all layers, with columns and properties."""
    return {
        ".".join(path[1:]): Stored(tuple(sorted(_rows(table))), tuple(sorted(_state(table))))
        for path, table in _tables(_catalog(place))
        if path[-1] not in OF_PROCESSES
    }


def rows_alone(place: Place) -> Contents:
    """Return the rows of a lake, without what depends on the order in which its columns were found."""
    return {
        ".".join(path[1:]): Stored(tuple(sorted(_rows(table, without=BY_NUMBERS_OF_COLUMNS))))
        for path, table in _tables(_catalog(place))
        if path[-1] not in OF_PROCESSES
    }


def rows_of(place: Place, name: str, *, subscription: str = NAME) -> list[dict[str, Any]]:
    """Return the rows of a system table as they are."""
    found: list[dict[str, Any]] = _catalog(place).load_table((subscription, name)).scan().to_arrow().to_pylist()
    return found


def tables_with_rows(place: Place) -> set[str]:
    """Return the names of the tables that have rows."""
    found = ((".".join(path[1:]), table.current_snapshot()) for path, table in _tables(_catalog(place)))
    return {name for name, last in found if last is not None and last.summary and last.summary["total-records"] != "0"}


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a table of two lakes: the part of it that differs, and what only one of them has."""

    part: str
    what: str


def differences(older: Contents, newer: Contents) -> dict[str, Difference]:
    """Return the tables whose contents differ, by name."""
    found = {}
    for name in sorted(older.keys() | newer.keys()):
        one, other = older.get(name, Stored()), newer.get(name, Stored())
        if one.rows != other.rows:
            found[name] = Difference("rows", _one_sided(one.rows, other.rows))
        elif one.state != other.state:
            found[name] = Difference("columns or properties", _one_sided(one.state, other.state))
    return found


def _one_sided(older: Sequence[str], newer: Sequence[str]) -> str:
    """Return the first text that only the older and only the newer table has, and how many such texts there are."""
    gone, come = Counter(older) - Counter(newer), Counter(newer) - Counter(older)
    shown = [f"the older one has {next(iter(gone))[:MOST_SHOWN]}"] if gone else []
    shown += [f"the newer one has {next(iter(come))[:MOST_SHOWN]}"] if come else []
    return f"{gone.total()} went, {come.total()} came; {'; '.join(shown)}"


def _catalog(place: Place) -> Catalog:
    return open_catalog(LakeLocation(str(place.folder / "lake")))


def _tables(catalog: Catalog, namespace: tuple[str, ...] = (NAME,)) -> Iterator[tuple[tuple[str, ...], Table]]:
    for path in catalog.list_tables(namespace):
        yield path, catalog.load_table(path)
    for inner in catalog.list_namespaces(namespace):
        yield from _tables(catalog, inner)


def _rows(table: Table, *, without: Collection[str] = ()) -> Iterator[str]:
    name = table.name()[-1]
    for row in table.scan().to_arrow().to_pylist():
        shown = {column: value for column, value in row.items() if column not in without}
        if without and name == "table_shapes":  # an earlier version had a lineage there, which is NULL now
            (shown.get("first_position") or {}).pop("lineage", None)
        if without and (kept := OF_KEPT_TYPES.get(table.name()[-3:])):
            shown |= {image: _as_text(shown[image], kept) for image in ("before", "after")}
        if without:  # these are in the order of the lake's columns
            shown |= {one: sorted(shown[one]) for one in ("absent", "invalid") if isinstance(shown.get(one), list)}
        yield _text({column: value for column, value in shown.items() if (name, column) not in OF_FILES})


def _as_text(image: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    return image and {**image, name: None if image.get(name) is None else str(image[name])}


def _state(table: Table) -> Iterator[str]:
    """Yield the columns with their numbers and types, and the product's own properties."""
    snapshot = table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    yield from (f"column {one}" for one in table.schema().fields)
    yield from (
        f"{name}: {_text(_read(value))}"
        for name, value in (*table.properties.items(), *summary.items())
        if name.startswith(OWN_PROPERTIES) and name not in OF_WRITERS
    )


def _read(value: str) -> Any:
    try:
        found = json.loads(value)
    except ValueError:
        return value
    if isinstance(found, dict):
        return {key: one for key, one in found.items() if key not in NUMBERS_OF_SNAPSHOTS}
    return found


def _text(value: Any) -> str:
    """A value without the names of runs, the keys of its dicts in order."""
    if isinstance(value, dict):
        inner = (f"{key}: {_text(value[key])}" for key in sorted(value) if key not in NAMES_OF_RUNS)
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value)
