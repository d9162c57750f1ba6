"""Commits of position deletes: rows go and stay away, whoever deleted them, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry
from pyiceberg.table import Table

from dts_assets.errors import ForeignDeletesError, LakeChangeError, LakeTableError, StaleGenerationError
from dts_assets.store import commit, new_version
from dts_assets.store.commit import files_apart, files_in, replace
from dts_assets.store.delete_files import live_rows
from dts_assets.store.file_stores import FileStore
from tests.store.row_deletes import commit_foreign, delete_rows, found_in, table_of, written
from tests.store.test_commit import ALL, snapshots, summary

if TYPE_CHECKING:
    from tests.store.conftest import Cells


def all_of_them(_: DataFile) -> bool:
    return True


def but(path: str) -> Callable[[DataFile], bool]:
    """Every file but one stays."""
    return lambda file: file.file_path != path


@pytest.fixture
def two(cells: Cells) -> list[str]:
    """Paths of two data files of six rows in one partition, and of one in another."""
    for generation, cell in (("a", (0, 0)), ("b", (0, 0)), ("c", (1, 0))):
        replace(cells.catalog, cells.identifier, {}, cells.write([cell], generation, rows=6), keep=all_of_them)
    return sorted((file.file_path for file, _ in found_in(cells)), key=lambda path: path.split("/")[-2])


def rows(cells: Cells) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for _, _, generation, number in cells.rows():
        found.setdefault(generation, []).append(number)
    return found


def entries(cells: Cells, content: ManifestContent) -> list[tuple[str, int, int]]:
    """Status, data sequence number and file sequence number of all entries of manifests of a kind."""
    table = table_of(cells)
    head = table.current_snapshot()
    assert head is not None
    return sorted(
        (entry.status.name, entry.sequence_number or 0, entry.file_sequence_number or 0)
        for manifest in head.manifests(table.io)
        if manifest.content == content
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    )


def live_deletes(cells: Cells) -> list[ManifestEntry]:
    table = table_of(cells)
    head = table.current_snapshot()
    assert head is not None
    return [
        entry
        for manifest in head.manifests(table.io)
        if manifest.content == ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


class TestDeleting:
    def test_the_rows_go_and_their_files_stay(self, cells: Cells, two: list[str]) -> None:
        before = {file.file_path for file, _ in found_in(cells)}
        done = delete_rows(cells, {two[0]: [1, 4], two[2]: [0]})
        assert (done.added, done.removed) == ((), ())
        assert {file.file_path for file, _ in found_in(cells)} == before
        assert rows(cells) == {"a": [0, 2, 3, 5], "b": [0, 1, 2, 3, 4, 5], "c": [1, 2, 3, 4, 5]}
        assert [len(deletes) for _, deletes in sorted(found_in(cells), key=lambda one: two.index(one[0].file_path))] == [
            1, 0, 1,
        ]  # fmt: skip

    def test_a_commit_of_deletes_alone_is_a_delete_with_its_counts(self, cells: Cells, two: list[str]) -> None:
        delete_rows(cells, {two[0]: [1, 4], two[2]: [0]})
        found = summary(snapshots(cells)[-1])
        size = sum(one.file_size_in_bytes for file, deletes in found_in(cells) for one in (file, *deletes))
        assert found == found | {
            "operation": "delete", "added-delete-files": "2", "added-position-delete-files": "2",
            "added-position-deletes": "3", "total-position-deletes": "3", "total-delete-files": "2",
            "total-data-files": "3", "total-records": "18", "total-files-size": str(size),
        }  # fmt: skip
        assert "added-data-files" not in found
        assert "deleted-data-files" not in found

    def test_rows_go_and_come_in_one_version(self, cells: Cells, two: list[str]) -> None:
        (file, _), *_ = (one for one in found_in(cells) if one[0].file_path == two[1])
        new = cells.write([(0, 0)], "new", rows=2)
        count = len(snapshots(cells))
        done = replace(
            cells.catalog, cells.identifier, {}, new, keep=but(two[0]),
            deletes=[written(cells, file, [0, 5])], applied=(), properties={"dts.frontier": "7"},
        )  # fmt: skip
        assert len(snapshots(cells)) == count + 1
        assert done.removed == (two[0],)
        assert rows(cells) == {"b": [1, 2, 3, 4], "c": [0, 1, 2, 3, 4, 5], "new": [0, 1]}
        found = summary(snapshots(cells)[-1])
        assert found["operation"] == "overwrite"
        assert (found["total-records"], found["total-position-deletes"], found["dts.frontier"]) == ("14", "2", "7")

    def test_an_append_beside_deletes_is_no_append(self, cells: Cells, two: list[str]) -> None:
        (file, _), *_ = (one for one in found_in(cells) if one[0].file_path == two[1])
        new = cells.write([(0, 0)], "new", rows=2)
        replace(
            cells.catalog, cells.identifier, {}, new, keep=all_of_them, deletes=[written(cells, file, [0])], applied=()
        )  # fmt: skip
        assert summary(snapshots(cells)[-1])["operation"] == "overwrite"

    def test_rows_are_deleted_again_and_again(self, cells: Cells, two: list[str]) -> None:
        for row in (0, 2, 4):
            delete_rows(cells, {two[0]: [row]})
        assert rows(cells)["a"] == [1, 3, 5]
        delete_rows(cells, {two[0]: [5]}, merge=True)
        assert rows(cells)["a"] == [1, 3]
        found = summary(snapshots(cells)[-1])
        assert (found["total-delete-files"], found["total-position-deletes"]) == ("1", "4")
        assert (found["removed-delete-files"], found["removed-position-deletes"]) == ("3", "3")

    def test_sequence_numbers_are_those_of_the_commits(self, cells: Cells, two: list[str]) -> None:
        delete_rows(cells, {two[0]: [0]})
        delete_rows(cells, {two[1]: [0]})
        assert entries(cells, ManifestContent.DELETES) == [("ADDED", 4, 4), ("ADDED", 5, 5)]
        applied = {one.file_path for _, deletes in found_in(cells) for one in deletes}
        replace(
            cells.catalog, cells.identifier, {}, (), keep=but(two[0]), applied=applied
        )  # the manifests of the first file and of its deletes are written anew
        assert entries(cells, ManifestContent.DELETES) == [("ADDED", 5, 5), ("DELETED", 4, 4)]
        assert rows(cells) == {"b": [1, 2, 3, 4, 5], "c": [0, 1, 2, 3, 4, 5]}

    def test_a_new_file_is_not_touched_by_older_deletes(self, cells: Cells, two: list[str]) -> None:
        """Not even by those that may concern all files of its partition, where readers go by sequence numbers."""
        commit_foreign(cells, [(two[0], 1), (two[1], 1)], bounds=False)
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "new", rows=2), keep=all_of_them)
        (file,) = (one for one in found_in(cells) if "/new/" in one[0].file_path)
        assert file[1] == []
        assert rows(cells)["new"] == [0, 1]

    def test_manifests_are_merged_by_kind(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(new_version, "MERGE_AT", 4)
        for number in range(9):
            window = number % 3
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, window)], f"g{number}"), keep=all_of_them)
            path = next(file.file_path for file, _ in found_in(cells) if f"/g{number}/" in file.file_path)
            delete_rows(cells, {path: [number % 3]})
        assert rows(cells) == {f"g{number}": [n for n in range(3) if n != number % 3] for number in range(9)}
        table = table_of(cells)
        head = table.current_snapshot()
        assert head is not None
        manifests = head.manifests(table.io)
        kinds = [manifest.content for manifest in manifests]
        assert 1 < len(kinds) < 12
        for manifest in manifests:
            kind = {
                entry.data_file.content == DataFileContent.DATA for entry in manifest.fetch_manifest_entry(table.io)
            }
            assert kind == {manifest.content == ManifestContent.DATA}
        numbers = [entry[1] for entry in entries(cells, ManifestContent.DELETES)]
        assert sorted(numbers) == list(range(2, 19, 2)), "as they were before manifests were merged"
        assert sorted(entry[1] for entry in entries(cells, ManifestContent.DATA)) == list(range(1, 18, 2))

    def test_a_lost_answer_does_not_delete_twice(
        self, cells: Cells, two: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, calls = Table._do_commit, list[int]()

        def deaf(table: Table, updates: Any, requirements: Any) -> None:
            real(table, updates, requirements)
            calls.append(1)
            if len(calls) == 1:
                raise TimeoutError

        monkeypatch.setattr(Table, "_do_commit", deaf)
        monkeypatch.setattr(commit, "_NO_ANSWER", (TimeoutError,))
        delete_rows(cells, {two[0]: [1]})
        assert len(calls) == 1
        assert summary(snapshots(cells)[-1])["total-position-deletes"] == "1"

    def test_a_failed_try_leaves_no_manifest(
        self, cells: Cells, two: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, failures = Table._do_commit, iter([1, 2])

        def failing(table: Table, updates: Any, requirements: Any) -> None:
            for _ in failures:
                raise CommitFailedException("somebody else")
            real(table, updates, requirements)

        monkeypatch.setattr(Table, "_do_commit", failing)
        folder = Path(table_of(cells).location().removeprefix("file://")) / "metadata"
        before = set(folder.glob("*.avro"))
        delete_rows(cells, {two[0]: [1]})
        assert len(set(folder.glob("*.avro")) - before) == 2


class TestRemoving:
    """Data files go, and of their delete files those that concern nothing else."""

    @pytest.mark.parametrize("whole", [True, False])
    def test_deletes_go_with_their_file(self, whole: bool, cells: Cells, two: list[str]) -> None:
        delete_rows(cells, {two[0]: [1], two[1]: [2, 3]})
        applied = {one.file_path for _, deletes in found_in(cells) for one in deletes}
        new = cells.write([(0, 0)], "new", rows=5)
        rectangle = {} if whole else cells.rectangle([0], [0])
        replace(cells.catalog, cells.identifier, rectangle, new, keep=but(two[0]), applied=applied)
        assert rows(cells) == {"b": [0, 1, 4, 5], "c": [0, 1, 2, 3, 4, 5], "new": [0, 1, 2, 3, 4]}
        found = summary(snapshots(cells)[-1])
        assert found["operation"] == "overwrite"
        assert (found["removed-delete-files"], found["removed-position-deletes"]) == ("1", "1")
        assert (found["total-delete-files"], found["total-position-deletes"]) == ("1", "2")
        assert found["total-records"] == str(6 + 6 + 5)

    @pytest.mark.parametrize("bounds", [False, True])
    def test_deletes_of_several_files_go_with_the_last(self, bounds: bool, cells: Cells, two: list[str]) -> None:
        shared = commit_foreign(cells, [(two[0], 1), (two[1], 2), (two[1], 3)], bounds=bounds)
        assert rows(cells) == {"a": [0, 2, 3, 4, 5], "b": [0, 1, 4, 5], "c": [0, 1, 2, 3, 4, 5]}
        for gone, left in ((two[0], {"b": [0, 1, 4, 5], "c": [0, 1, 2, 3, 4, 5]}), (two[1], {"c": [0, 1, 2, 3, 4, 5]})):
            replace(
                cells.catalog, cells.identifier, cells.rectangle([0], [0]), (),
                keep=but(gone), applied=[shared],
            )  # fmt: skip
            assert rows(cells) == left
            assert summary(snapshots(cells)[-1])["total-delete-files"] == ("1" if "b" in left else "0")

    def test_deletes_outside_of_the_rectangle_stay(self, cells: Cells, two: list[str]) -> None:
        shared = commit_foreign(cells, [(two[0], 1), (two[1], 2)], bounds=False)
        replace(cells.catalog, cells.identifier, cells.rectangle([1], [0]), cells.write([(1, 0)], "new", rows=1))
        assert rows(cells) == {"a": [0, 2, 3, 4, 5], "b": [0, 1, 3, 4, 5], "new": [0]}
        assert {one.file_path for _, deletes in found_in(cells) for one in deletes} == {shared}

    def test_what_other_programs_leave_behind_goes_when_rows_go(self, cells: Cells, two: list[str]) -> None:
        """Spark's copy-on-write removes a data file and leaves its delete file in the table."""
        idle = commit_foreign(cells, [("file:///gone.parquet", 1)] * 2, bounds=True, partition_of_path=two[0])
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "new", rows=1), keep=all_of_them)
        assert summary(snapshots(cells)[-1])["operation"] == "append"
        assert summary(snapshots(cells)[-1])["total-delete-files"] == "1", "an append removes nothing"
        delete_rows(cells, {two[0]: [0]})
        assert idle not in {entry.data_file.file_path for entry in live_deletes(cells)}
        assert summary(snapshots(cells)[-1])["total-position-deletes"] == "1"

    def test_part_of_the_table_says_nothing_of_files_elsewhere(self, cells: Cells, two: list[str]) -> None:
        """A delete file counts for its data file in whatever partition it is entered: readers look by path."""
        astray = commit_foreign(cells, [(two[2], 1)], bounds=True, partition_of_path=two[0])
        assert rows(cells)["c"] == [0, 2, 3, 4, 5]
        replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), (), keep=but(two[0]))
        assert rows(cells) == {"b": [0, 1, 2, 3, 4, 5], "c": [0, 2, 3, 4, 5]}
        (file,) = (one for one in found_in(cells) if one[0].file_path == two[2])
        assert [one.file_path for one in file[1]] == [astray]

    def test_compaction_takes_deletes_with_it(self, cells: Cells, two: list[str]) -> None:
        delete_rows(cells, {two[0]: [1], two[1]: [2, 3]})
        found = found_in(cells)
        live = sum(
            int(live_rows(FileStore(), file.file_path, file.record_count, [one.file_path for one in deletes]).sum())
            for file, deletes in found
            if file.file_path != two[2]
        )
        assert live == 9
        replace(
            cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "compacted", rows=live), same_rows=True,
            keep=lambda file: file.file_path == two[2],
            applied={one.file_path for _, deletes in found for one in deletes},
        )  # fmt: skip
        head = summary(snapshots(cells)[-1])
        assert head["operation"] == "replace"
        assert (head["total-records"], head["total-delete-files"], head["total-position-deletes"]) == ("15", "0", "0")
        assert found_in(cells)[0][1] == []


class TestRefused:
    @pytest.mark.parametrize("content", [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES])
    def test_whole_files_of_which_rows_are_deleted(
        self, content: DataFileContent, cells: Cells, two: list[str]
    ) -> None:
        commit_foreign(cells, [(two[0], 1)], bounds=True, content=content)
        with pytest.raises(ForeignDeletesError, match="rewrite_data_files"):
            files_in(table_of(cells), {})
        with pytest.raises(ForeignDeletesError):
            files_in(table_of(cells), cells.rectangle([0], [0]))
        for rectangle in ({}, cells.rectangle([0], [0])):
            with pytest.raises(ForeignDeletesError):
                replace(cells.catalog, cells.identifier, rectangle, cells.write([(0, 0)], "late"))
        assert len(files_in(table_of(cells), cells.rectangle([1], [0]))) == 1, "another partition is not concerned"
        replace(cells.catalog, cells.identifier, cells.rectangle([1], [0]), cells.write([(1, 0)], "late"))

    def test_a_rewriting_that_does_not_know_of_all_deletes(self, cells: Cells, two: list[str]) -> None:
        delete_rows(cells, {two[0]: [1]})
        known = {one.file_path for _, deletes in found_in(cells) for one in deletes}
        delete_rows(cells, {two[0]: [2]})
        for applied in ((), known):
            with pytest.raises(StaleGenerationError, match="run it again"):
                replace(cells.catalog, cells.identifier, {}, (), keep=but(two[0]), applied=applied)
        assert rows(cells)["a"] == [0, 3, 4, 5]

    def test_deletes_that_were_taken_back_since(self, cells: Cells, two: list[str]) -> None:
        """The rows count again; a rewriting without them would lose them."""
        delete_rows(cells, {two[0]: [1]})
        known = {one.file_path for _, deletes in found_in(cells) for one in deletes}
        table_of(cells).manage_snapshots().set_current_snapshot(snapshots(cells)[2].snapshot_id).commit()
        assert rows(cells)["a"] == [0, 1, 2, 3, 4, 5]
        with pytest.raises(StaleGenerationError):
            replace(cells.catalog, cells.identifier, {}, (), keep=but(two[0]), applied=known)

    def test_deletes_of_rows_by_somebody_who_does_not_know_of_earlier_ones(self, cells: Cells, two: list[str]) -> None:
        (file,) = (one for one, _ in found_in(cells) if one.file_path == two[0])
        late = written(cells, file, [1])
        delete_rows(cells, {two[0]: [1]})
        with pytest.raises(StaleGenerationError):
            replace(cells.catalog, cells.identifier, {}, (), keep=all_of_them, deletes=[late], applied=())
        with pytest.raises(ForeignDeletesError):
            replace(cells.catalog, cells.identifier, {}, (), keep=all_of_them, deletes=[late])
        assert summary(snapshots(cells)[-1])["total-position-deletes"] == "1"

    def test_deletes_of_a_file_that_is_gone_or_goes(self, cells: Cells, two: list[str]) -> None:
        (file,) = (one for one, _ in found_in(cells) if one.file_path == two[0])
        deletes = [written(cells, file, [1])]
        with pytest.raises(LakeTableError, match="the file itself is, too"):
            replace(cells.catalog, cells.identifier, {}, (), keep=but(two[0]), deletes=deletes, applied=())
        replace(cells.catalog, cells.identifier, {}, (), keep=but(two[0]))
        with pytest.raises(StaleGenerationError):
            replace(cells.catalog, cells.identifier, {}, (), keep=all_of_them, deletes=deletes, applied=())

    def test_deletes_outside_of_the_rectangle(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "rows"))
        file = next(file for file, _ in found_in(cells) if partition(file)[0] == 1)
        with pytest.raises(LakeTableError, match="outside"):
            replace(
                cells.catalog, cells.identifier, {"kafka_partition": {0}}, (), keep=all_of_them, applied=(),
                deletes=[written(cells, file, [1])],
            )  # fmt: skip

    def test_delete_files_that_do_not_fit(self, cells: Cells, two: list[str]) -> None:
        (file,) = (one for one, _ in found_in(cells) if one.file_path == two[0])
        (other,) = (one for one, _ in found_in(cells) if one.file_path == two[2])
        good = written(cells, file, [1])
        shared = commit_foreign(cells, [(two[0], 3), (two[1], 2)], bounds=True)
        bad = {
            "beyond": ([written(cells, file, [6])], "more rows"),
            "rows": ([changed(good, rows=2)], "holds 1 rows"),
            "twice": ([good, written(cells, file, [2])], "two new delete files"),
            "partition": ([changed(good, partition=(1, good.partition[1]))], "another partition"),
            "alone": ([changed(good, data_file=two[1])], "alone"),
            "shared": ([changed(good, instead_of=(shared,))], "other data files"),
            "of another": ([changed(good, data_file=other.file_path)], "alone"),
        }
        for what, (deletes, why) in bad.items():
            with pytest.raises(LakeTableError, match=why):
                replace(cells.catalog, cells.identifier, {}, (), keep=all_of_them, deletes=deletes, applied=[shared])
            assert rows(cells)["a"] == [0, 1, 2, 4, 5], what
        with pytest.raises(LakeChangeError, match="not there"):
            replace(
                cells.catalog, cells.identifier, {}, (), keep=all_of_them, applied=[shared],
                deletes=[changed(good, path=good.path + "x")],
            )  # fmt: skip

    def test_a_delete_file_that_is_there_already(self, cells: Cells, two: list[str]) -> None:
        (file,) = (one for one, _ in found_in(cells) if one.file_path == two[0])
        deletes = [written(cells, file, [1])]
        for applied, again in (([], False), ([deletes[0].path], True)):
            with pytest.raises(LakeTableError, match="already") if again else nullcontext():
                replace(
                    cells.catalog, cells.identifier, {}, (), keep=all_of_them, deletes=deletes, applied=applied
                )  # fmt: skip
        assert summary(snapshots(cells)[-1])["total-position-deletes"] == "1"

    def test_more_deletes_than_rows(self, cells: Cells, two: list[str]) -> None:
        """Somebody's reader forgot what was deleted: the same rows would be deleted twice."""
        delete_rows(cells, {two[0]: [0, 1, 2, 3]})
        with pytest.raises(LakeTableError, match="more rows"):
            delete_rows(cells, {two[0]: [1, 2, 3]})

    @pytest.mark.parametrize(
        ("content", "file_format"),
        [
            (DataFileContent.POSITION_DELETES, FileFormat.AVRO),
            (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN),
            (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET),
        ],
    )
    def test_kinds_that_are_not_read(
        self, content: DataFileContent, file_format: FileFormat, cells: Cells, two: list[str]
    ) -> None:
        commit_foreign(cells, [(two[0], 1)], bounds=True, content=content, file_format=file_format)
        with pytest.raises(ForeignDeletesError, match="not read here"):
            found_in(cells)

    def test_deletes_by_values_for_all_partitions(self, cells: Cells, two: list[str]) -> None:
        """Without a partition they apply to the files of all partition specs."""
        with table_of(cells).update_spec() as update:
            update.remove_field("kafka_partition").remove_field("window_start")
        commit_foreign(cells, [(two[0], 1)], bounds=False, content=DataFileContent.EQUALITY_DELETES, everywhere=True)
        for number in range(2):
            with pytest.raises(ForeignDeletesError, match="not read here"):
                files_in(table_of(cells), cells.rectangle([number], [0]))


def test_versions_differ_where_deletes_do(cells: Cells, two: list[str]) -> None:
    before = snapshots(cells)[-1].snapshot_id
    done = delete_rows(cells, {two[0]: [1]})
    assert done.snapshot_id is not None
    first, second = files_apart(table_of(cells), before, done.snapshot_id)
    assert first == []
    assert [partition(one) for one in second] == [partition(found_in_path(cells, two[0]))]


def partition(file: Any) -> list[Any]:
    return [file.partition[number] for number in range(len(file.partition))]


def found_in_path(cells: Cells, path: str) -> Any:
    return next(file for file, _ in found_in(cells) if file.file_path == path)


def test_deleted_entries_are_not_live(cells: Cells, two: list[str]) -> None:
    delete_rows(cells, {two[0]: [1]})
    delete_rows(cells, {two[0]: [2]}, merge=True)
    assert ("DELETED", 4, 4) in entries(cells, ManifestContent.DELETES)
    (found,) = (deletes for file, deletes in found_in(cells) if file.file_path == two[0])
    assert [one.record_count for one in found] == [2]


def test_the_whole_table_can_be_partitioned_or_not(cells: Cells) -> None:
    replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "rows"))
    delete_rows(cells, {file.file_path: np.array([0, 2]) for file, _ in found_in(cells)})
    assert cells.rows() == [(p, w, "rows", 1) for p, w in ALL]
