"""The laws of replacing a rectangle: exact, atomic, repeatable, last or compared writer wins, nothing lost among many."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy.exc import OperationalError

from dts_assets.errors import LakeChangeError, LakeTableError, OvertakenError, StaleGenerationError
from dts_assets.model.turns import Turn
from dts_assets.store import commit
from dts_assets.store.commit import files_apart, files_in, generation_of, replace, stands_at
from dts_assets.store.files import TableWriter
from dts_assets.store.iceberg_tables import ensure_table
from dts_assets.store.schemas import layout
from dts_assets.store.turns import entering, having, turns_of
from dts_assets.store.types import iceberg_schema
from dts_assets.store.write_targets import write_target
from tests.tiers import examples, times

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from dts_assets.store.catalog import LakeLocation
    from tests.store.conftest import Cells

Steps = list[tuple[set[int], set[int], set[tuple[int, int]]]]

ALL = list(itertools.product(range(2), range(3)))


def snapshots(cells: Cells) -> list[Snapshot]:
    return list(cells.catalog.load_table(cells.identifier).metadata.snapshots)


def summary(snapshot: Snapshot) -> dict[str, str]:
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def paths_in(cells: Cells, kafka_partitions: Iterable[int], windows: Iterable[int]) -> set[str]:
    table = cells.catalog.load_table(cells.identifier)
    return {file.file_path for file in files_in(table, cells.rectangle(kafka_partitions, windows))}


class TestOneWriter:
    def test_a_rectangle_holds_exactly_the_new_generation(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "old"))
        replace(cells.catalog, cells.identifier, cells.rectangle([0], [1, 2]), cells.write([(0, 1), (0, 2)], "new"))
        expected = {cell: {"new"} if cell in {(0, 1), (0, 2)} else {"old"} for cell in ALL}
        assert cells.generations() == expected
        assert len(cells.rows()) == 3 * len(ALL)

    def test_replacing_twice_is_replacing_once(self, cells: Cells) -> None:
        for _ in range(2):
            replace(cells.catalog, cells.identifier, cells.rectangle([0, 1], [0, 1, 2]), cells.write(ALL, "same"))
        assert cells.rows() == [(p, w, "same", n) for p, w in ALL for n in range(3)]

    def test_an_empty_generation_replaces_too(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "old"))
        done = replace(cells.catalog, cells.identifier, cells.rectangle([1], [0]), [])
        assert len(done.removed) == 1
        assert (1, 0) not in cells.generations()
        assert len(cells.generations()) == len(ALL) - 1

    def test_fewer_cells_than_the_rectangle_clear_the_others(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "old"))
        replace(cells.catalog, cells.identifier, cells.rectangle([0], [0, 1, 2]), cells.write([(0, 1)], "new"))
        assert {cell for cell in cells.generations() if cell[0] == 0} == {(0, 1)}

    def test_nothing_to_remove_and_nothing_to_add_is_no_commit(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "old"))
        before = snapshots(cells)
        done = replace(cells.catalog, cells.identifier, cells.rectangle([1], [2]), [])
        assert done.snapshot_id is None
        assert snapshots(cells) == before

    def test_nothing_but_something_to_say_is_a_commit(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "old"))
        done = replace(
            cells.catalog, cells.identifier, {}, [], properties={"dts.frontier": "8"},
            base=paths_in(cells, [0], [0]), keep=lambda _: True,
        )  # fmt: skip
        assert snapshots(cells)[-1].snapshot_id == done.snapshot_id
        assert summary(snapshots(cells)[-1])["dts.frontier"] == "8"
        assert summary(snapshots(cells)[-1])["total-records"] == "3"
        assert cells.generations() == {(0, 0): {"old"}}

    def test_files_of_two_snapshots_differ_where_their_manifests_do(self, cells: Cells) -> None:
        heads: list[int] = []
        for number in range(40):  # manifests are merged on the way
            cell = ALL[number % len(ALL)]
            rectangle = cells.rectangle([cell[0]], [cell[1]])
            keep = (lambda _: True) if number % 3 else None
            done = replace(cells.catalog, cells.identifier, rectangle, cells.write([cell], f"g{number}"), keep=keep)
            assert done.snapshot_id is not None
            heads.append(done.snapshot_id)
        table = cells.catalog.load_table(cells.identifier)
        whole = {head: {file.file_path for file in files_in(table, {}, snapshot_id=head)} for head in heads}
        fewer = 0
        for one, other in itertools.product(heads[::3], heads[::4]):
            first, second = ({file.file_path for file in files} for files in files_apart(table, one, other))
            assert first - second == whole[one] - whole[other]
            assert second - first == whole[other] - whole[one]
            fewer += len(second) < len(whole[other])
        assert fewer > 20
        assert files_apart(table, 1, heads[0])[0] == [], "a snapshot that is gone has no files"

    def test_it_is_one_overwrite_snapshot_with_the_given_properties(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "old"))
        files = cells.write([(0, 0)], "new")
        done = replace(
            cells.catalog, cells.identifier, cells.rectangle([0], [0]), files, properties={"dts.frontier": "7"}
        )
        assert len(snapshots(cells)) == 2
        head = snapshots(cells)[-1]
        assert head.snapshot_id == done.snapshot_id
        assert summary(head)["operation"] == "overwrite"
        assert summary(head)["dts.frontier"] == "7"
        assert summary(head)["total-data-files"] == str(len(ALL))
        assert summary(head)["total-records"] == str(3 * len(ALL))
        assert summary(head)["deleted-data-files"] == "1"

    def test_a_table_without_partitions_is_replaced_whole(self, catalog: Catalog) -> None:
        made = layout(iceberg_schema((("number", "int"),)))
        table = ensure_table(catalog, ("shop", "plain"), made)
        for numbers in ([1, 2, 3], [4]):
            with TableWriter(write_target(table, "run")) as writer:
                writer.write(pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int32())}))
                replace(catalog, ("shop", "plain"), {}, writer.close())
        assert catalog.load_table(("shop", "plain")).scan().to_arrow().to_pydict() == {"number": [4]}

    @pytest.mark.more
    @settings(examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        steps=st.lists(
            st.tuples(
                st.sets(st.integers(0, 1), min_size=1),
                st.sets(st.integers(0, 2), min_size=1),
                st.sets(st.sampled_from(ALL)),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_a_rectangle_at_once_equals_its_cells_one_by_one(self, cells: Cells, steps: Steps) -> None:
        model: dict[tuple[int, int], set[str]] = {}
        for by_cell in (False, True):
            replace(cells.catalog, cells.identifier, {}, [])
            model.clear()
            for number, (kafka_partitions, windows, filled) in enumerate(steps):
                inside = [cell for cell in ALL if cell[0] in kafka_partitions and cell[1] in windows]
                new = [cell for cell in inside if cell in filled]
                for cell in inside:
                    model.pop(cell, None)
                model |= {cell: {str(number)} for cell in new}
                if by_cell:
                    for p, w in inside:
                        files = cells.write([(p, w)], str(number)) if (p, w) in new else ()
                        replace(cells.catalog, cells.identifier, cells.rectangle([p], [w]), files)
                else:
                    files = cells.write(new, str(number)) if new else ()
                    replace(cells.catalog, cells.identifier, cells.rectangle(kafka_partitions, windows), files)
            assert cells.generations() == model


class TestRefused:
    def test_a_new_file_outside_of_the_rectangle(self, cells: Cells) -> None:
        files = cells.write([(0, 0), (1, 0)], "new")
        with pytest.raises(LakeTableError, match="outside"):
            replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), files)
        assert cells.rows() == []

    @pytest.mark.parametrize("partition", [(1, 0), (0, 1)])
    def test_a_partition_tuple_that_the_rows_do_not_have(self, cells: Cells, partition: tuple[int, int]) -> None:
        (file,) = cells.write([(0, 0)], "new")
        lying = changed(file, partition=(partition[0], cells.window(partition[1])))
        with pytest.raises(LakeTableError, match="reported with another"):
            replace(cells.catalog, cells.identifier, {}, [lying])

    def test_rows_of_two_partitions_in_one_file(self, cells: Cells) -> None:
        with TableWriter(cells.target()) as writer:
            writer.write_partition((0, cells.window(0)), cells.batch([(0, 0), (0, 1)], "new"))
            files = writer.close()
        with pytest.raises(LakeTableError, match="reported with another"):
            replace(cells.catalog, cells.identifier, {}, files)

    def test_rows_without_a_partition_value(self, cells: Cells) -> None:
        batch = cells.batch([(0, 0)], "new").set_column(1, "window_start", pa.nulls(3, pa.timestamp("us", tz="UTC")))
        with TableWriter(cells.target()) as writer:
            writer.write_partition((0, cells.window(0)), batch)
            files = writer.close()
        with pytest.raises(LakeTableError, match="without window_start"):
            replace(cells.catalog, cells.identifier, {}, files)

    def test_a_file_that_is_not_there(self, cells: Cells) -> None:
        (file,) = cells.write([(0, 0)], "new")
        with pytest.raises(LakeChangeError, match="not there"):
            replace(cells.catalog, cells.identifier, {}, [changed(file, path=file.path + "x")])

    def test_a_file_with_other_rows_than_reported(self, cells: Cells) -> None:
        (file,) = cells.write([(0, 0)], "new")
        with pytest.raises(LakeTableError, match="holds 3 rows"):
            replace(cells.catalog, cells.identifier, {}, [changed(file, rows=4)])

    def test_a_file_given_twice_or_already_in_the_table(self, cells: Cells) -> None:
        (file,) = cells.write([(0, 0)], "new")
        with pytest.raises(LakeTableError, match="twice"):
            replace(cells.catalog, cells.identifier, {}, [file, file])
        replace(cells.catalog, cells.identifier, {}, [file])
        with pytest.raises(LakeTableError, match="already"):
            replace(cells.catalog, cells.identifier, {}, [file])
        assert len(cells.rows()) == 3

    def test_field_ids_of_another_table(self, cells: Cells) -> None:
        target = cells.target()
        fields = list(target.arrow_schema)
        swapped = [
            fields[0],
            fields[1],
            fields[2].with_metadata(fields[3].metadata),
            fields[3].with_metadata(fields[2].metadata),
        ]
        schema = pa.schema(swapped).serialize().to_pybytes()
        with TableWriter(changed(target, schema=schema)) as writer:
            writer.write(cells.batch([(0, 0)], "new"))
            files = writer.close()
        with pytest.raises(LakeTableError, match="the table has not"):
            replace(cells.catalog, cells.identifier, {}, files)

    def test_a_base_that_is_no_longer_there(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "first"))
        base = paths_in(cells, [0], [0])
        rectangle = cells.rectangle([0], [0])
        replace(cells.catalog, cells.identifier, rectangle, cells.write([(0, 0)], "second"), base=base)
        with pytest.raises(StaleGenerationError, match=generation_of(base)):
            replace(cells.catalog, cells.identifier, rectangle, cells.write([(0, 0)], "late"), base=base)
        assert cells.generations() == {(0, 0): {"second"}}

    def test_an_empty_rectangle_that_is_no_longer_empty(self, cells: Cells) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "first"), base=())
        with pytest.raises(StaleGenerationError):
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "late"), base=(), keep=lambda _: True)
        assert cells.generations() == {(0, 0): {"first"}}

    def test_a_table_that_went_on_since_the_plan(self, cells: Cells) -> None:
        first = replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "first"), assertion=stands_at(None))
        keep = lambda _: True  # noqa: E731
        for planned_on in (None, 1):
            with pytest.raises(StaleGenerationError, match="Nothing was changed"):
                replace(
                    cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "late"),
                    assertion=stands_at(planned_on), keep=keep,
                )  # fmt: skip
        on = stands_at(first.snapshot_id)
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 1)], "next"), assertion=on, keep=keep)
        assert cells.generations() == {(0, 0): {"first"}, (0, 1): {"next"}}

    def test_what_removes_nothing_is_an_append_and_a_compaction_a_replacement(self, cells: Cells) -> None:
        for same_rows in (False, True):
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "same"), same_rows=same_rows)
        assert [summary(one)["operation"] for one in snapshots(cells)] == ["append", "replace"]
        assert [summary(one)["total-records"] for one in snapshots(cells)] == ["3", "3"]

    def test_the_names_of_writers_stay_with_later_commits(self, cells: Cells) -> None:
        one, other = Turn({"p00": "1-a", "p01": "1-b"}), Turn({"p00": "2-c"})
        for turn in (one, other):
            replace(cells.catalog, cells.identifier, {"kafka_partition": ()}, (), assertion=entering(turn))
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "rows"))
        table = cells.catalog.load_table(cells.identifier)
        assert turns_of(table) == {"p00": "2-c", "p01": "1-b"}
        with pytest.raises(OvertakenError, match="p00"):
            replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "late"), assertion=having(one))
        assert cells.generations() == {(0, 0): {"rows"}}


class TestManyWriters:
    def test_a_conflict_is_planned_anew(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another writer replaces the same empty rectangle between our plan and our commit: one generation stays, not two."""
        real, others = Table._do_commit, iter([cells.write([(0, 0)], "other")])

        def interrupted(table: Table, updates: Any, requirements: Any) -> None:
            for files in others:
                with monkeypatch.context() as patch:
                    patch.setattr(commit, "table_lock", lambda table: nullcontext())
                    replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), files)
            real(table, updates, requirements)

        monkeypatch.setattr(Table, "_do_commit", interrupted)
        done = replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "ours"))
        assert len(done.removed) == 1
        assert cells.generations() == {(0, 0): {"ours"}}
        assert len(cells.rows()) == 3

    def test_a_commit_whose_answer_was_lost_is_not_repeated(
        self, cells: Cells, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, calls = Table._do_commit, []

        def deaf(table: Table, updates: Any, requirements: Any) -> None:
            real(table, updates, requirements)
            calls.append(1)
            raise OperationalError("UPDATE", {}, Exception("database is locked"))

        monkeypatch.setattr(Table, "_do_commit", deaf)
        done = replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "ours"))
        assert (len(calls), len(snapshots(cells))) == (1, 1)
        assert snapshots(cells)[0].snapshot_id == done.snapshot_id

    def test_a_failed_try_leaves_no_manifest(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        real, failures = Table._do_commit, iter([1, 2])

        def failing(table: Table, updates: Any, requirements: Any) -> None:
            for _ in failures:
                raise CommitFailedException("somebody else")
            real(table, updates, requirements)

        monkeypatch.setattr(Table, "_do_commit", failing)
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "ours"))
        table = cells.catalog.load_table(cells.identifier)
        left = list(Path(table.location().removeprefix("file://")).glob("metadata/*.avro"))
        assert len(left) == 2  # one manifest, one manifest list

    @pytest.mark.more
    def test_writers_of_several_processes_lose_nothing(self, cells: Cells, processes: Processes) -> None:
        """Four processes replace cells, one cell all of them: every commit is in the history, every cell is one generation."""
        jobs = [processes.start(str(number), [[(0, 0)], [(1, number)]], commits=8) for number in range(4)]
        reported = [one for job in jobs for one in processes.finished(job)]
        assert len(reported) == 32
        assert {snapshot.snapshot_id for snapshot in snapshots(cells)} == set(reported)
        assert len(cells.generations()) == 5
        assert all(len(generations) == 1 for generations in cells.generations().values())
        assert len(cells.rows()) == 3 * 5
        assert summary(snapshots(cells)[-1])["total-data-files"] == "5"

    @pytest.mark.more
    def test_a_killed_writer_leaves_a_whole_generation(self, cells: Cells, processes: Processes) -> None:
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "before"))
        for number in range(times(2, 6)):
            job = processes.start(f"k{number}", [ALL], commits=10_000, whole_table=True)
            processes.first_commit(job)
            time.sleep(0.013 * number)
            processes.kill(job)
            assert len({generation for held in cells.generations().values() for generation in held}) == 1
            assert len(cells.rows()) == 3 * len(ALL)
        replace(cells.catalog, cells.identifier, {}, cells.write(ALL, "after"))
        assert cells.generations() == {cell: {"after"} for cell in ALL}


class Processes:
    """Jobs of the fork server in writers.py."""

    def __init__(self, server: subprocess.Popen[str], lake: LakeLocation, folder: Path) -> None:
        self._server, self._lake, self._folder = server, lake, folder
        self._pids: dict[str, int] = {}

    def start(
        self, name: str, rectangles: list[list[tuple[int, int]]], *, commits: int, whole_table: bool = False
    ) -> Path:
        output = self._folder / f"{name}.txt"
        output.touch()
        job = {
            "warehouse": self._lake.warehouse, "name": name, "rectangles": rectangles, "commits": commits,
            "whole_table": whole_table, "output": str(output),
        }  # fmt: skip
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        self._pids[output.name] = int(self._server.stdout.readline())
        return output

    def first_commit(self, job: Path) -> None:
        until(lambda: bool(job.read_text()), f"a commit of {job.stem}")

    def finished(self, job: Path) -> list[int]:
        until(lambda: job.read_text().endswith("done\n"), f"the end of {job.stem}")
        return [int(line) for line in job.read_text().splitlines()[:-1]]

    def kill(self, job: Path) -> None:
        pid = self._pids[job.name]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists(), f"the death of {job.stem}")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, str(Path(__file__).with_name("writers.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()
        server.wait(timeout=60)


@pytest.fixture
def processes(fork_server: subprocess.Popen[str], lake_location: LakeLocation, tmp_path: Path) -> Processes:
    return Processes(fork_server, lake_location, tmp_path)
