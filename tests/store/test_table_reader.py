"""Rows that are read with a mask are those that pyiceberg reads, whatever was deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask

from dts_assets.store.commit import replace
from dts_assets.store.table_reader import read_rows
from tests.store.row_deletes import delete_rows, found_in, table_of
from tests.tiers import times

if TYPE_CHECKING:
    from tests.store.conftest import Cells


def fill(cells: Cells, sizes: dict[str, int]) -> None:
    for number, (generation, rows) in enumerate(sizes.items()):
        files = cells.write([(number % 2, number % 3)], generation, rows=rows)
        replace(cells.catalog, cells.identifier, {}, files, keep=lambda _: True)


def texts(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("seed", range(times(3, 60)))
def test_rows_are_those_that_pyiceberg_reads(cells: Cells, seed: int) -> None:
    """Some files lose nothing, some rows, some all, in one or in several commits."""
    random = Random(seed)
    fill(cells, {f"g{number}": random.choice((1, 7, 140_000 if number == 0 else 900)) for number in range(5)})
    left = {file.file_path: set(range(file.record_count)) for file, _ in found_in(cells)}
    for _ in range(random.randint(1, 3)):
        gone = {
            path: random.sample(sorted(rows), random.choice((1, len(rows) // 3, len(rows))))
            for path, rows in left.items()
            if rows and random.random() < 0.6
        }
        gone = {path: rows for path, rows in gone.items() if rows}
        if gone:
            delete_rows(cells, gone)
        for path, rows in gone.items():
            left[path] -= set(rows)
    table = table_of(cells)
    for columns in (("*",), ("number", "generation"), ("number",)):
        theirs = table.scan(selected_fields=columns).to_arrow_batch_reader()
        ours = read_rows(table, columns)
        assert ours.schema == theirs.schema
        assert texts(ours.read_all()) == texts(theirs.read_all())
    where = table.scan(row_filter="number >= 3").to_arrow()
    assert texts(read_rows(table, where="number >= 3").read_all()) == texts(where)


def test_a_file_with_deleted_rows_is_read_by_its_mask(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg gets no delete file to apply; where there is none, all is its own way."""
    fill(cells, {"a": 6, "b": 6})
    first = found_in(cells)[0][0]
    given: list[int] = []
    real = ArrowScan.to_record_batches

    def noted(self: ArrowScan, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        tasks = list(tasks)
        given.append(sum(len(one.delete_files) for one in tasks))
        return real(self, tasks)

    delete_rows(cells, {first.file_path: [0, 5]})
    monkeypatch.setattr(ArrowScan, "to_record_batches", noted)
    assert read_rows(table_of(cells)).read_all().num_rows == 10
    assert given == [0, 0]


def test_a_table_without_rows_has_its_columns(cells: Cells) -> None:
    assert read_rows(table_of(cells)).read_all().num_rows == 0
    fill(cells, {"a": 3})
    ((file, _),) = found_in(cells)
    delete_rows(cells, {file.file_path: range(3)})
    found = read_rows(table_of(cells)).read_all()
    assert found.num_rows == 0
    assert found.schema.names == ["kafka_partition", "window_start", "generation", "number"]
