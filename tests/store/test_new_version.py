"""The files of new versions: manifests stay few, old metadata goes, and pyiceberg's writers are the ones that were looked at."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING

import pyiceberg
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestWriterV2, write_manifest, write_manifest_list
from pyiceberg.table import Table

from dts_assets.store import new_version
from dts_assets.store.commit import replace
from dts_assets.store.file_stores import FileStore
from dts_assets.store.files import WriteTarget
from tests.store.row_deletes import delete_rows, found_in, table_of
from tests.store.test_commit import snapshots

if TYPE_CHECKING:
    from tests.store.conftest import Cells


class TestUpkeep:
    def test_manifests_stay_few_and_complete(self, cells: Cells) -> None:
        for number in range(45):
            replace(
                cells.catalog, cells.identifier, cells.rectangle([0], [number]), cells.write([(0, number)], "a", rows=1)
            )
        table = cells.catalog.load_table(cells.identifier)
        assert len(snapshots(cells)[-1].manifests(table.io)) <= new_version.MERGE_AT + 2
        assert len(cells.rows()) == 45
        done = replace(cells.catalog, cells.identifier, cells.rectangle([0], range(40)), [])
        assert len(done.removed) == 40
        assert [window for _, window, _, _ in cells.rows()] == list(range(40, 45))

    def test_old_metadata_files_go(self, cells: Cells) -> None:
        for number in range(15):
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], str(number), rows=1))
        location = cells.catalog.load_table(cells.identifier).location().removeprefix("file://")
        assert len(list(Path(location).glob("metadata/*.metadata.json"))) <= 12


def test_what_this_relies_on_in_pyiceberg_is_as_it_was() -> None:
    """A new pyiceberg must be looked at: the commit goes through one private method and the writers behind the public ones."""
    assert pyiceberg.__version__ == "0.12.0"
    assert list(inspect.signature(Table._do_commit).parameters) == ["self", "updates", "requirements"]
    assert list(inspect.signature(write_manifest).parameters) == [
        "format_version", "spec", "schema", "output_file", "snapshot_id", "avro_compression",
    ]  # fmt: skip
    assert list(inspect.signature(write_manifest_list).parameters) == [
        "format_version", "output_file", "snapshot_id", "parent_snapshot_id", "sequence_number", "avro_compression",
    ]  # fmt: skip
    entry = ManifestEntry.from_args(status=1, snapshot_id=1, sequence_number=2, file_sequence_number=3, data_file=None)
    assert (entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (1, 1, 2, 3)


def test_a_manifest_of_deletes_says_so_wherever_readers_look(cells: Cells) -> None:
    """pyiceberg looks at the list of manifests, Java at the head of the manifest; a writer of data manifests makes both."""
    replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "rows"))
    (data,) = found_in(cells)
    delete_rows(cells, {data[0].file_path: [1]})
    table = table_of(cells)
    found = {}
    for manifest in snapshots(cells)[-1].manifests(table.io):
        with AvroFile[ManifestEntry](table.io.new_input(manifest.manifest_path)) as opened:
            found[manifest.content] = dict(opened.header.meta)
    assert {content: meta["content"] for content, meta in found.items()} == {
        ManifestContent.DATA: "data",
        ManifestContent.DELETES: "deletes",
    }
    one, other = ({name: meta[name] for name in meta if name != "content"} for meta in found.values())
    assert one == other
    assert [name for name in vars(ManifestWriterV2) if not name.startswith("__") and not name.startswith("_abc")] == [
        "content", "version", "_meta", "prepare_entry",
    ]  # fmt: skip
    assert list(inspect.signature(ManifestWriterV2.__init__).parameters) == [
        "self", "spec", "schema", "output_file", "snapshot_id", "avro_compression",
    ]  # fmt: skip


def test_a_target_can_be_sent_to_a_worker_and_shows_no_secret(cells: Cells) -> None:
    target = changed(cells.target(), store=FileStore("shop.cells", {"s3.secret-access-key": "hush"}))
    assert pickle.loads(pickle.dumps(target)) == target
    assert "hush" not in repr(target)
    assert isinstance(target, WriteTarget)
