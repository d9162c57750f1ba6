"""The changes of a table in one or several changelogs, read by tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.document_rows import BESIDE_IMAGES, with_images
from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.moved_shards import MovedShards
from dts_assets.stages.row_places import at_or_before
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import read_batches


@dataclass(frozen=True, slots=True)
class ChangesSource:
    """A changelog: the folder of its files, their store, and the positions between which its changes count.

    They stand behind ``since`` and not behind ``until``; None stands for no bound. ``moved`` are the shards of a merged table in
    which rows had another name; None where all changes have the name of now. ``filtered`` says that its changes are under the
    row filter of the table that they are for; it is false if they are under none, and None if they are under another one.
    """

    location: str = ""
    store: FileStore = field(default_factory=FileStore)
    since: SourcePosition | None = None
    until: SourcePosition | None = None
    moved: MovedShards | None = None
    filtered: bool | None = True

    def batches(
        self,
        paths: Sequence[str],
        columns: Sequence[str],
        *,
        parts: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of those files that are of this changelog; see :func:`dts_assets.store.files.read_batches`."""
        folder = self.location and self.location.rstrip("/") + "/"  # another table's name may begin with this one's
        mine = [path for path in paths if path.startswith(folder)]
        bounds = () if self.until is None else ("op", "kafka_partition")
        wanted = tuple(dict.fromkeys((*columns, *bounds, *BESIDE_IMAGES)))
        for batch in read_batches(self.store, mine, wanted, parts=parts, optional=BESIDE_IMAGES) if mine else ():
            yield self._bounded(with_images(batch))

    def _bounded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.since is not None:
            batch = batch.filter(pa.array(~at_or_before(batch, self.since)))
        if self.until is not None:
            batch = batch.filter(pa.array(at_or_before(batch, self.until) & ~_begins_copy(batch, self.until)))
        return batch if self.moved is None else self.moved.read(batch)


def _begins_copy(batch: pa.RecordBatch, until: SourcePosition) -> Mask:
    """Return which changes take rows away for a copy that was read right behind the statement at ``until.next``.

    They stand before all copied rows, and so before the statement; what they take away had its other name by then.
    """
    empties = pc.and_(pc.equal(batch["op"], "truncate"), pc.is_null(batch["kafka_partition"]))
    return as_mask(empties) & ~at_or_before(batch, until.previous)


def stored_changes(
    sources: Iterable[ChangesSource],
    paths: Sequence[str],
    columns: Sequence[str],
    *,
    parts: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Yield the changes in some files, each of which is of one of the changelogs."""
    for one in sources:
        yield from one.batches(paths, columns, parts=parts)
