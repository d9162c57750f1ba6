"""Rows put in the order of the source with little memory.

Rows that do not fit are sorted in parts on disk, and merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.sorted_merge import SortedPart, merged, sorted_rows

HELD_BYTES = 64 << 20
"""The bytes of rows that are held in memory; more go to a file, sorted."""

_BATCH_BYTES = 1 << 20
"""The bytes of rows of each file that are in memory while all are merged."""


class SortedSpool:
    """Rows that come in some order and are given in that of the source.

    They are given as soon as no earlier ones can come.
    ``folder`` is one for files, which the caller removes.
    """

    def __init__(self, folder: Path, *, held_bytes: int = HELD_BYTES) -> None:
        self._folder = folder
        self._held_bytes = held_bytes
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._parts: list[SortedPart] = []
        self._files = 0

    def add(self, rows: pa.Table) -> None:
        """Take some rows, with the columns of :data:`dts_assets.stages.sorted_merge.SORT_COLUMNS` among others."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._held_bytes:
            self._parts.append(SortedPart(self._on_disk(self._taken())))

    def until(self, before: SourcePosition | None) -> Iterator[pa.Table]:
        """Yield the rows before a position in their order (None: all that are left)."""
        held = SortedPart(iter([self._taken()])) if self._held else None
        yield from merged([*self._parts, *([] if held is None else [held])], before=before)
        self._parts = [part for part in self._parts if not part.is_empty]
        if held is not None and not held.is_empty:
            self.add(held.head)

    def _taken(self) -> pa.Table:
        rows, self._held, self._bytes = sorted_rows(pa.concat_tables(self._held)), [], 0
        return rows

    def _on_disk(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Write sorted rows to a file at once, and return them batch by batch."""
        path = self._folder / f"part-{self._files}.arrow"
        self._files += 1
        size = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=size)
        return _read(path)


def _read(path: Path) -> Iterator[pa.Table]:
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)])
    path.unlink()
