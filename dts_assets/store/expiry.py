"""The expiry of old Iceberg snapshots: they leave a table's metadata, and their files leave the disk.

Every commit reads and writes the metadata whole, and a table that is refreshed three times a minute has four thousand versions
a day. pyiceberg forgets Iceberg snapshots and leaves their files where they are, so this module finds these files: those that a
version that goes can reach, less those that any version that stays can reach. How versions descend from each other is not
asked, so it is the same after a rollback, with branches and tags, and for a table that was replaced.

The cost follows the changes. A manifest that some version shares with one that stays is not read for what goes; and of those that
stay only the ones are read whose partitions and sequence numbers leave room for such a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate
from pyiceberg.typedef import Identifier

from dts_assets.errors import LakeTableError
from dts_assets.errors.origins import full_disk
from dts_assets.store.data_files import partition_value
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.replacement_plan import field_names, may_meet
from dts_assets.store.table_folders import may_go, place_of

KEEP_SNAPSHOTS = 100
"""The number of newest Iceberg snapshots that always stay."""

KEEP_FOR = timedelta(days=2)
"""The least time for which an Iceberg snapshot stays.

It is longer than any run that reads a table as it stood when the run began.
"""

KEEP_FOR_LIVE = timedelta(minutes=30)
"""The least time for which an Iceberg snapshot stays where open windows are refreshed all the time.

Every version of a table of 5 MB kept for two days would be 40 GB.
"""

AT_ONCE = 50
"""The number of superfluous Iceberg snapshots below which a table is left alone.

Each expiry is a commit of its own.
"""


@dataclass(frozen=True, slots=True)
class Expired:
    """The outcome of an expiry: the Iceberg snapshots that went, and their files.

    They alone held these files. The bytes are those of data, delete and manifest files; lists of manifests are not counted.
    ``left`` are files that stay although no version holds them: another table names them, or no run of this project wrote them.
    """

    versions: int = 0
    files: int = 0
    bytes: int = 0
    left: int = 0


NOTHING_EXPIRED = Expired()


def expire_snapshots(
    catalog: Catalog,
    identifier: Identifier,
    *,
    needed: Collection[int] = (),
    keep_for: timedelta = KEEP_FOR,
    none_before: datetime | None = None,
    only_present: bool = False,
    now: datetime | None = None,
    warn: Callable[[str], None] = lambda line: None,
    others: OtherTables | None = None,
) -> int:
    """Expire old Iceberg snapshots of a table with their files, and return the number of expired snapshots.

    A table with few of them is left alone; see :func:`expire`. With ``only_present`` none stays for being one of the newest.
    """
    done = expire(
        catalog,
        identifier,
        needed=needed,
        keep_for=keep_for,
        none_before=none_before,
        now=now,
        warn=warn,
        at_least=1 if only_present else AT_ONCE,
        keep=0 if only_present else None,
        others=others,
    )
    if done.left:
        warn(f"{'.'.join(identifier)}: {files_left(done.left)}")
    return done.versions


def files_left(count: int) -> str:
    """Return the sentence for files that stay although no version of their table holds them any more."""
    words = "1 file stays" if count == 1 else f"{count:,} files stay"
    return f"{words} that no version of it holds: another table names them, or no run of this project wrote them there"


def expire(
    catalog: Catalog,
    identifier: Identifier,
    *,
    needed: Collection[int] = (),
    keep_for: timedelta = KEEP_FOR,
    none_before: datetime | None = None,
    now: datetime | None = None,
    warn: Callable[[str], None] = lambda line: None,
    at_least: int = 1,
    keep: int | None = None,
    others: OtherTables | None = None,
    dry_run: bool = False,
) -> Expired:
    """Expire old Iceberg snapshots of a table with their files, and return what went.

    The ``keep`` newest snapshots stay (None: :data:`KEEP_SNAPSHOTS`), and so do snapshots younger than ``keep_for``, the
    ``needed`` snapshots (ids), and those of branches and tags. Of snapshots made before the instant ``none_before`` none stays
    for being one of the newest. A file that another Iceberg snapshot holds stays, and so does one that no run of this project
    wrote in the table's folders, or that one of the ``others`` names (None: all tables of the catalog are asked).

    A table that is not there, that somebody else is committing to, or of which fewer than ``at_least`` would go, is left alone.
    So is one with a version that cannot be read, one beside tables that cannot be read, one whose properties forbid it, and one
    whose catalog gives no answer; ``warn`` is told why, once of all tables beside one of ``others`` that cannot be read. A
    ``dry_run`` says what would go and changes nothing.
    """
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return NOTHING_EXPIRED
    name = ".".join(identifier)
    before = ((now or datetime.now(UTC)) - keep_for).timestamp() * 1000
    at_once = 0.0 if none_before is None else none_before.timestamp() * 1000
    newest = KEEP_SNAPSHOTS if keep is None else keep
    gone = superfluous(table.metadata, frozenset(needed), before, at_once=at_once, keep=newest)
    if not gone or (len(gone) < at_least and not any(one.timestamp_ms < at_once for one in gone)):
        return NOTHING_EXPIRED
    if table.properties.get("gc.enabled", "true").lower() == "false":
        warn(f"{name}: {len(gone)} old versions stay, because the table's property gc.enabled is false")
        return NOTHING_EXPIRED
    ids = frozenset(one.snapshot_id for one in gone)
    stay = [one for one in table.metadata.snapshots if one.snapshot_id not in ids]
    others = OtherTables(catalog) if others is None else others
    try:
        held = _held_by_these_alone(table, gone, stay)
    except Exception as error:  # whatever a damaged or foreign file makes its reader raise
        warn(f"{name}: {len(gone)} old versions stay, because it cannot be read which files they alone hold: {error}")
        return NOTHING_EXPIRED
    try:
        unused = _that_may_go(table, held, others)
    except LakeTableError as error:
        others.say_once(error, warn)
        return NOTHING_EXPIRED
    if dry_run:
        return Expired(len(gone), len(unused), sum(unused.values()), len(held) - len(unused))
    after = _without(catalog, identifier, table, sorted(ids))
    if after is None:
        return NOTHING_EXPIRED
    left = {one.snapshot_id for one in after.metadata.snapshots}
    if left & ids:
        warn(f"{name}: the catalog did not say whether it forgot {len(gone)} old versions, so no file was removed")
        return NOTHING_EXPIRED
    if left != {one.snapshot_id for one in stay}:  # somebody made a version meanwhile, on a branch of its own
        held = _held_by_these_alone(table, gone, after.metadata.snapshots)
        unused = _that_may_go(table, held, others)
    files = size = 0
    for path, length in unused.items():
        with suppress(OSError):  # a file that cannot be removed is an orphan, which harms nothing
            table.io.delete(path)
            files, size = files + 1, size + length
    return Expired(len(gone), files, size, len(held) - len(unused))


def superfluous(
    metadata: TableMetadata, needed: Collection[int], before: float, *, at_once: float = 0.0, keep: int
) -> list[Snapshot]:
    """Return the Iceberg snapshots that go.

    They were made before ``before`` (milliseconds since 1970). They are neither needed, nor the head of a branch or tag, nor one
    of the ``keep`` newest unless made before ``at_once``.
    """
    held = {reference.snapshot_id for reference in metadata.refs.values()} | {metadata.current_snapshot_id, *needed}
    ordered = sorted(metadata.snapshots, key=lambda one: (one.sequence_number or 0, one.timestamp_ms))
    newest = {one.snapshot_id for one in ordered[len(ordered) - min(keep, len(ordered)) :]}
    return [
        one
        for one in ordered
        if one.timestamp_ms < before
        and one.snapshot_id not in held
        and (one.snapshot_id not in newest or one.timestamp_ms < at_once)
    ]


def _without(catalog: Catalog, identifier: Identifier, table: Table, ids: Sequence[int]) -> Table | None:
    """Have the catalog forget Iceberg snapshots, and return the table as it is then.

    None is returned if somebody else was faster. No branch or tag may have moved: a catalog would take it away together with the
    version that it was moved to.
    """
    updates = (RemoveSnapshotsUpdate(snapshot_ids=list(ids)),)
    same = (AssertRefSnapshotId(ref=name, snapshot_id=one.snapshot_id) for name, one in table.metadata.refs.items())
    try:
        table._do_commit(updates, (AssertTableUUID(uuid=table.metadata.table_uuid), *same))
    except CommitFailedException:
        return None
    except Exception as error:  # perhaps it was done nevertheless
        if full_disk(error) is not None:
            raise
        return catalog.load_table(identifier)
    return table


@dataclass(frozen=True, slots=True)
class _Held:
    """The files that versions alone hold: data and delete files, and manifests and lists, each with its bytes."""

    data: Mapping[str, int]
    metadata: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.data) + len(self.metadata)


def _that_may_go(table: Table, held: _Held, others: OtherTables) -> dict[str, int]:
    """Return the paths, with their bytes, that this project may remove.

    Raises:
        LakeTableError: Another table cannot be read, so that nobody can say.
    """
    found = {path: size for path, size in held.data.items() if may_go(table, place_of(path), metadata=False)}
    found |= {path: size for path, size in held.metadata.items() if may_go(table, place_of(path), metadata=True)}
    named = others.naming(table, set(map(place_of, found)))
    return {path: size for path, size in found.items() if place_of(path) not in named}


def _held_by_these_alone(table: Table, gone: Sequence[Snapshot], stay: Sequence[Snapshot]) -> _Held:
    """Return what ``gone`` can reach and ``stay`` cannot; the bytes of lists are not known.

    A file that is live in a version that goes stands in one of its manifests. If a version that stays has this manifest, it
    holds the file, too. So the files are looked for in the other manifests.
    """
    kept = {one.manifest_path: one for snapshot in stay for one in snapshot.manifests(table.io)}
    dropped = {one.manifest_path: one for snapshot in gone for one in snapshot.manifests(table.io)}
    for path in kept:
        dropped.pop(path, None)
    lost = {entry.data_file.file_path: entry for entry in _live(table, dropped.values())}
    for entry in _live(table, _with_room(table, kept.values(), lost.values())):
        lost.pop(entry.data_file.file_path, None)
    lists = {one.manifest_list for one in gone} - {one.manifest_list for one in stay}
    return _Held(
        {path: int(entry.data_file.file_size_in_bytes) for path, entry in lost.items()},
        {path: int(one.manifest_length) for path, one in dropped.items()} | dict.fromkeys(sorted(lists), 0),
    )


def _live(table: Table, manifests: Iterable[ManifestFile]) -> Iterable[ManifestEntry]:
    return (entry for one in manifests for entry in one.fetch_manifest_entry(table.io, discard_deleted=True))


def _with_room(
    table: Table, manifests: Iterable[ManifestFile], entries: Collection[ManifestEntry]
) -> list[ManifestFile]:
    """Return the manifests in which one of the files of ``entries`` may stand.

    A manifest holds files of its own partition spec, inside its bounds, none of which is newer than itself.
    """
    by_spec: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        by_spec[entry.data_file.spec_id].append(entry)
    oldest = {spec: min(entry.file_sequence_number or 0 for entry in some) for spec, some in by_spec.items()}
    wanted = {spec: _partitions(field_names(table)[spec], some) for spec, some in by_spec.items()}
    return [
        one
        for one in manifests
        if (spec := one.partition_spec_id) in by_spec
        and (one.sequence_number or 0) >= oldest[spec]
        and may_meet(table, one, wanted[spec])
    ]


def _partitions(names: Sequence[str], entries: Iterable[ManifestEntry]) -> Mapping[str, frozenset[Any]]:
    """Return the values of the partition fields in which every file has one: ``{"window_start": {...}}``."""
    found = {
        name: frozenset(partition_value(entry.data_file.partition[number]) for entry in entries)
        for number, name in enumerate(names)
    }
    return {name: values for name, values in found.items() if None not in values}
