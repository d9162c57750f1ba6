"""The sizes of a subscription's tables: the bytes of now, those that older versions alone hold, and orphans.

What settings would free is computed beside them. All of it but orphans comes from Iceberg's metadata. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from dts_assets.flows.known_tables import stored_tables
from dts_assets.flows.maintained_tables import Path, layer_of, layer_paths, maintained_paths
from dts_assets.flows.one_by_one import one_by_one
from dts_assets.flows.orphans import find_orphans, folders_of_tables, orphan_rule
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.reports import Progress
from dts_assets.model.failures import Failure
from dts_assets.model.lake_layers import layer_at
from dts_assets.model.message_retention import ENTRIES, RAW
from dts_assets.model.tables import TableId
from dts_assets.planning.compactions import is_worth_compacting
from dts_assets.settings.values import duration_text
from dts_assets.store import expiry
from dts_assets.store.expiry import superfluous
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.table_files import HeldFiles


@dataclass(frozen=True, slots=True)
class TableBytes:
    """The size of a table.

    ``bytes``, ``files`` and ``rows`` are those of its present version, its manifests and delete files included. ``older_bytes``
    are held by ``older_versions`` alone, and ``expiring_bytes`` would go with the versions that the settings let expire now.
    ``mergeable_files`` would become few by compaction.
    """

    path: Path
    bytes: int = 0
    files: int = 0
    rows: int = 0
    older_bytes: int = 0
    older_versions: int = 0
    expiring_bytes: int = 0
    orphan_bytes: int = 0
    orphan_files: int = 0
    mergeable_files: int = 0

    @property
    def layer(self) -> str:
        """The layer of the table."""
        return layer_of(self.path)

    @property
    def all_bytes(self) -> int:
        """All bytes of the table in the store, as far as they are known."""
        return self.bytes + self.older_bytes + self.orphan_bytes


@dataclass(frozen=True, slots=True)
class Freed:
    """The bytes and rows that a setting would free; ``setting`` is its text, such as ``message_retention.raw: 14d``."""

    setting: str
    bytes: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class LakeBytes:
    """The sizes of tables, what settings would free, and the failures of tables that could not be read."""

    tables: tuple[TableBytes, ...] = ()
    freed: tuple[Freed, ...] = ()
    failures: tuple[Failure, ...] = ()

    def by_layer(self) -> dict[str, TableBytes]:
        """Return the sums of each layer, in the order of the tables."""
        found: dict[str, TableBytes] = {}
        for one in self.tables:
            found[one.layer] = added(found.get(one.layer, TableBytes((one.layer,))), one)
        return found

    def total(self) -> TableBytes:
        """Return the sum of all tables."""
        found = TableBytes(("total",))
        for one in self.tables:
            found = added(found, one)
        return found


_NUMBERS = (
    "bytes", "files", "rows", "older_bytes", "older_versions", "expiring_bytes", "orphan_bytes", "orphan_files",
    "mergeable_files",
)  # fmt: skip


def added(one: TableBytes, other: TableBytes) -> TableBytes:
    """Return the sum of two sizes, under the name of the first."""
    return TableBytes(one.path, **{name: getattr(one, name) + getattr(other, name) for name in _NUMBERS})


@dataclass(frozen=True, slots=True)
class Supposed:
    """The settings that a person supposes; None stands for the setting that is configured.

    ``raw`` and ``entries`` are ages from which on messages and entries go, whether or not others still need them.
    """

    expire_after: timedelta | None = None
    raw: timedelta | None = None
    entries: timedelta | None = None


def lake_bytes(
    pipeline: Pipeline,
    *,
    tables: Collection[TableId] | None = None,
    supposed: Supposed = Supposed(),
    orphans: bool = True,
    now: datetime | None = None,
    progress: Progress = lambda _: None,
) -> LakeBytes:
    """Return how large the tables are, and what settings would free.

    ``tables`` are the source tables to look at, None stands for all and for the tables that belong to none. Without ``orphans``
    no folder is listed.

    Raises:
        LakeFormatError: Another version of dts-assets made the lake.
    """
    if pipeline.lake.identity(pipeline.name) is None:
        return LakeBytes()
    now = now or datetime.now(UTC)
    tried = one_by_one(_paths(pipeline, tables), pipeline.lake.table, named=_size_of)
    opened = {path: table for path, table in tried.results.items() if table is not None}
    # A table that cannot be opened has a folder that nobody knows, and its files are no orphans of others.
    folders = folders_of_tables(opened) if orphans and not tried.failures else None
    looking = _Looking(pipeline, supposed, now, folders, pipeline.other_tables())

    def size(path: Path) -> TableBytes:
        found = looking.size(path, opened[path])
        progress(f"size: {'.'.join(path)}, one of {len(opened):,} tables")
        return found

    looked = one_by_one(opened, size, named=_size_of)
    sizes = tuple(looked.results.values())
    settings = one_by_one(() if tables is not None else looking.message_ages(), looking.freed, named=lambda one: one[1])
    freed = list(settings.results.values())
    expiring = sum(one.expiring_bytes for one in sizes)
    orphaned = sum(one.orphan_bytes for one in sizes)
    found = [Freed(f"maintenance.expire_after: {duration_text(looking.keep_for)}", expiring), *freed]
    if folders is not None:
        found.append(
            Freed(f"maintenance.orphans_after: {duration_text(pipeline.settings.maintenance.orphans_after)}", orphaned)
        )
    failures = [*tried.failures.values(), *looked.failures.values(), *settings.failures.values()]
    return LakeBytes(sizes, tuple(found), tuple(failures))


def _size_of(path: Path) -> str:
    return f"The size of {'.'.join(path)}"


def _paths(pipeline: Pipeline, tables: Collection[TableId] | None) -> Iterable[Path]:
    if tables is None:
        return maintained_paths(pipeline)
    return [path for table in sorted(tables) for path in layer_paths(pipeline, table)]


@dataclass(slots=True)
class _Looking:
    """The look at one table after the other. ``folders`` are those of all tables, None where no folder is listed.

    ``naming`` are the tables that may name files of others.
    """

    pipeline: Pipeline
    supposed: Supposed
    now: datetime
    folders: frozenset[str] | None
    naming: OtherTables
    _needed: dict[tuple[str, ...], frozenset[int]] = field(default_factory=dict)

    @property
    def keep_for(self) -> timedelta:
        """The age from which on old versions go."""
        usual = expiry.KEEP_FOR_LIVE if self.pipeline.settings.window.live else expiry.KEEP_FOR
        return next(
            (
                age
                for age in (self.supposed.expire_after, self.pipeline.settings.maintenance.expire_after)
                if age is not None
            ),
            usual,
        )

    def size(self, path: Path, table: Table) -> TableBytes:
        """Return the size of a table."""
        held, metadata = HeldFiles(table), table.metadata
        current = table.current_snapshot()
        live = held.of([] if current is None else [current])
        others = [one for one in metadata.snapshots if current is None or one.snapshot_id != current.snapshot_id]
        older = {place: one.bytes for place, one in held.of(others).items() if place not in live}
        before = (self.now - self.keep_for).timestamp() * 1000
        keep = 0 if layer_at(path).only_present else self.pipeline.settings.maintenance.keep_versions
        gone = {one.snapshot_id for one in superfluous(metadata, self._versions_needed(path), before, keep=keep)}
        stay = held.of(one for one in metadata.snapshots if one.snapshot_id not in gone)
        summary = {} if current is None or current.summary is None else current.summary.additional_properties
        orphaned = self._orphans(path)
        return TableBytes(
            path,
            sum(one.bytes for one in live.values()),
            len(live),
            int(summary.get("total-records", sum(one.rows for one in live.values()))),
            sum(older.values()),
            len(others),
            sum(size for place, size in older.items() if place not in stay),
            sum(orphaned.values()),
            len(orphaned),
            self._mergeable(path),
        )

    def _versions_needed(self, path: Path) -> frozenset[int]:
        """Return the versions of any table of a source table that the next run reads."""
        if len(path) < 3 or not layer_at(path).made:
            return frozenset()
        key = path[2:]
        if key not in self._needed:
            table = next(one for one in stored_tables(self.pipeline) if one.path == key)
            self._needed[key] = frozenset(
                version for layer in self.pipeline.layers for version in layer.needed_versions(self.pipeline, table)
            )
        return self._needed[key]

    def _orphans(self, path: Path) -> Mapping[str, int]:
        if self.folders is None:
            return {}
        rule = orphan_rule(self.pipeline, self.now - self.pipeline.settings.maintenance.orphans_after)
        found = find_orphans(self.pipeline, path, rule, others=self.folders, naming=self.naming)
        return {one.place: one.bytes for one in found.files}

    def _mergeable(self, path: Path) -> int:
        """Return the files of closed windows that compaction would make few of."""
        if path[1] not in ("changelog", RAW, ENTRIES):
            return 0
        counts: dict[tuple[object, ...], int] = {}
        for file in self.pipeline.lake.data_files(path):
            key = tuple(file.partition.values())
            counts[key] = counts.get(key, 0) + 1
        return sum(count for count in counts.values() if is_worth_compacting(count))

    def message_ages(self) -> tuple[tuple[str, str, timedelta], ...]:
        """Return the ages of messages and entries: the table, the text of the setting, and the age."""
        ages = self.pipeline.settings.message_ages
        both = (
            (RAW, "raw", ages.raw if self.supposed.raw is None else self.supposed.raw),
            (ENTRIES, "entries", ages.entries if self.supposed.entries is None else self.supposed.entries),
        )
        return tuple(
            (layer, f"message_retention.{key}: {duration_text(age)}", age)
            for layer, key, age in both
            if age is not None
        )

    def freed(self, one: tuple[str, str, timedelta]) -> Freed:
        """Return what an age of messages or entries would free."""
        layer, setting, age = one
        border = self.now - age - self.pipeline.settings.window.every
        files = self.pipeline.lake.data_files(self.pipeline.path(layer))
        old = [file for file in files if file.partition["window_start"] < border]
        return Freed(setting, sum(file.bytes for file in old), sum(file.rows for file in old))
