"""Random lives of a table whose rows are deleted: every version that is there has the rows that a model in memory has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, ManifestContent

from dts_assets.store import expiry, new_version
from dts_assets.store.commit import Replaced, replace
from dts_assets.store.data_files import partition_value
from dts_assets.store.delete_files import live_rows
from dts_assets.store.delete_index import only_file
from dts_assets.store.expiry import KEEP_FOR, expire_snapshots
from dts_assets.store.file_stores import FileStore
from dts_assets.store.lake import Lake
from dts_assets.store.table_folders import place_of, wrote
from tests.store.row_deletes import commit_foreign, found_in, partition_of, table_of, written
from tests.tiers import times

if TYPE_CHECKING:
    from dts_assets.store.catalog import LakeLocation
    from tests.store.conftest import Cells

LATER = datetime.now(UTC) + KEEP_FOR + timedelta(days=1)
Row = tuple[str, int]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    monkeypatch.setattr(new_version, "MERGE_AT", 4)


class Life:
    """A table, its live rows by file and row number as the model has them, and the rows of each of its versions."""

    def __init__(self, cells: Cells, lake: Lake, seed: int, *, foreign: bool) -> None:
        self.cells, self.lake, self.random, self.foreign = cells, lake, Random(seed), foreign
        self.live: dict[str, dict[int, Row]] = {}
        self.versions: dict[int, list[Row]] = {}
        self.made = 0

    def _commit(self, commit: Callable[[], Replaced | str]) -> None:
        commit()
        head = table_of(self.cells).metadata.current_snapshot_id
        assert head is not None
        self.versions[head] = sorted(row for rows in self.live.values() for row in rows.values())

    def _some_files(self) -> list[tuple[DataFile, list[DataFile]]]:
        found = found_in(self.cells)
        return self.random.sample(found, self.random.randint(1, min(3, len(found)))) if found else []

    def _some_rows(self, path: str) -> list[int]:
        live = sorted(self.live[path])
        return self.random.sample(live, self.random.randint(1, len(live))) if live else []

    def add(self) -> None:
        self.made += 1
        generation, rows = f"g{self.made}", self.random.randint(1, 6)
        cell = (self.random.randrange(2), self.random.randrange(2))
        files = self.cells.write([cell], generation, rows=rows)
        self.live[files[0].path] = {number: (generation, number) for number in range(rows)}
        self._commit(lambda: replace(self.cells.catalog, self.cells.identifier, {}, files, keep=lambda _: True))

    def change(self) -> None:
        """Refresh: some files lose rows by delete files, some are written anew without them, and new rows come."""
        chosen = self._some_files()
        applied = {one.file_path for _, deletes in chosen for one in deletes}
        deletes, removed, moved = [], set[str](), 0
        for file, before in chosen:
            path = file.file_path
            gone = self._some_rows(path)
            for row in gone:
                del self.live[path][row]
            if not gone or self.random.random() < 0.3:
                # The number of rows that are carried over is what our reader finds, and not what the model knows.
                names = [one.file_path for one in before]
                mask = live_rows(FileStore(), path, file.record_count, names)
                assert mask.sum() == len(self.live[path]) + len(gone)
                moved += int(mask.sum()) - len(gone)
                removed.add(path)
                del self.live[path]
            else:
                alone = [one.file_path for one in before if only_file(one)]
                instead_of = alone if self.random.random() < 0.4 else []
                deletes.append(written(self.cells, file, gone, instead_of=instead_of))
        self.made += 1
        rows = moved + self.random.randint(0, 2)
        files = self.cells.write([(0, 0)], f"g{self.made}", rows=rows) if rows else ()
        for new in files:
            self.live[new.path] = {number: (f"g{self.made}", number) for number in range(rows)}
        self._commit(
            lambda: replace(
                self.cells.catalog, self.cells.identifier, {}, files, keep=lambda file: file.file_path not in removed,
                deletes=deletes, applied=applied, properties={"dts.made": str(self.made)},
            )
        )  # fmt: skip

    def compact(self) -> None:
        """Write the files of a cell as one, with the rows that are live in them."""
        window = self.random.randrange(2)
        cell = (0, partition_value(self.cells.window(window)))
        chosen = [one for one in found_in(self.cells) if partition_of(one[0]) == cell]
        if not chosen:
            return
        rows = sum(len(self.live.pop(file.file_path)) for file, _ in chosen)
        removed = {file.file_path for file, _ in chosen}
        self.made += 1
        files = self.cells.write([(0, window)], f"g{self.made}", rows=rows) if rows else ()
        for new in files:
            self.live[new.path] = {number: (f"g{self.made}", number) for number in range(rows)}
        self._commit(
            lambda: replace(
                self.cells.catalog, self.cells.identifier, self.cells.rectangle([0], [window]), files,
                base=removed, same_rows=True, applied={one.file_path for _, deletes in chosen for one in deletes},
            )
        )  # fmt: skip

    def delete_as_others_do(self) -> None:
        """One delete file for several files of a partition, with or without bounds."""
        if not self.foreign:
            return
        chosen = self._some_files()
        same = [file.file_path for file, _ in chosen if partition_of(file) == partition_of(chosen[0][0])]
        rows = [(path, row) for path in same for row in self._some_rows(path)]
        if rows:
            for path, row in rows:
                del self.live[path][row]
            self._commit(lambda: commit_foreign(self.cells, rows, bounds=self.random.random() < 0.5))

    def tag(self) -> None:
        version = self.random.choice(sorted(self.versions.keys() & self._there()))
        table_of(self.cells).manage_snapshots().create_tag(version, f"t{self.made}_{len(self.versions)}").commit()

    def expire(self) -> None:
        expire_snapshots(self.cells.catalog, self.cells.identifier, now=LATER)
        self.check()

    def _there(self) -> set[int]:
        return {one.snapshot_id for one in table_of(self.cells).metadata.snapshots}

    def check_head(self) -> None:
        """pyiceberg, our own reader and the size agree with the model."""
        assert {file.file_path for file, _ in found_in(self.cells)} == self.live.keys()
        rows = sorted(row for some in self.live.values() for row in some.values())
        assert self._shown(None) == rows
        for file in self.lake.data_files(self.cells.identifier, applies_deletes=True):
            mask = live_rows(FileStore(), file.path, file.rows, file.deletes)
            with pq.ParquetFile(file.path.removeprefix("file://")) as opened:
                read = opened.read().filter(mask).select(["generation", "number"]).to_pylist()
            assert [(row["generation"], row["number"]) for row in read] == list(self.live[file.path].values())
            if not file.shared_deletes:
                assert file.rows - file.deleted_rows == len(self.live[file.path])
        if not self.foreign:
            size, state = self.lake.size(self.cells.identifier), self.lake.state(self.cells.identifier)
            assert size is not None
            assert state is not None
            assert size.rows == len(rows)
            told = state.properties
            assert int(told["total-records"]) - int(told["total-position-deletes"]) == len(rows)
            assert int(told["total-files-size"]) == size.bytes

    def _shown(self, version: int | None) -> list[Row]:
        found = table_of(self.cells).scan(snapshot_id=version).to_arrow().to_pylist()
        return sorted((row["generation"], row["number"]) for row in found)

    def check(self) -> None:
        """Every version has its rows, and the disk has what they need and nothing else."""
        table = table_of(self.cells)
        needed, lists = set[str](), set[str]()
        for one in table.metadata.snapshots:
            assert self._shown(one.snapshot_id) == self.versions[one.snapshot_id]
            lists.add(one.manifest_list)
            for manifest in one.manifests(table.io):
                lists.add(manifest.manifest_path)
                live = {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
                assert manifest.content == ManifestContent.DATA or all(
                    path.endswith("-deletes.parquet") for path in live
                )
                needed |= live
        folder = Path(table.location().removeprefix("file://"))
        there = {f"file://{path}" for path in (folder / "data").rglob("*.parquet")}
        assert needed <= there
        assert {path for path in there if wrote(table, place_of(path))} <= needed, "other programs remove theirs"
        assert {f"file://{path}" for path in (folder / "metadata").glob("*.avro")} == lists


@pytest.mark.more(after=1)
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("seed", range(times(1, 40)))
def test_random_lives(seed: int, foreign: bool, cells: Cells, lake_location: LakeLocation) -> None:
    life = Life(cells, Lake(lake_location), seed, foreign=foreign)
    for _ in range(3):
        life.add()
    actions = [(life.add, 3), (life.change, 8), (life.compact, 2), (life.delete_as_others_do, 3), (life.tag, 1),
               (life.expire, 2)]  # fmt: skip
    for action in life.random.choices([one for one, _ in actions], [weight for _, weight in actions], k=times(16, 60)):
        action()
        life.check_head()
    life.expire()
