"""The ways in which rows leave a data file: rewritten where that is cheap or due, and few bytes written and read on the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.row_removals import (
    DELETE_FILE_BYTES,
    DELETED_ROW_BYTES,
    MOST_DELETE_FILES,
    MOST_DELETED,
    Removal,
    listing_bytes,
    removal_of,
)

MILLION = 1_000_000


@st.composite
def files(draw: st.DrawFn) -> dict[str, int]:
    """A data file and the rows that are to leave it, any part of its live rows."""
    rows = draw(st.integers(1, 10 * MILLION))
    already = draw(st.integers(0, rows - 1))
    return {
        "file_bytes": draw(st.one_of(st.integers(1, 10 * DELETE_FILE_BYTES), st.integers(1, 1 << 34))),
        "file_rows": rows,
        "removed_rows": draw(st.integers(1, rows - already)),
        "already_deleted_rows": already,
        "delete_files": draw(st.integers(1, 20)) if already else 0,
    }


def way(file: dict[str, int], **other: int) -> Removal:
    asked = {**file, **other}
    return removal_of(asked.pop("file_bytes"), asked.pop("file_rows"), **asked)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((100_000_000, MILLION, 10_000, 0, 0), Removal.DELETES),
        ((100_000_000, MILLION, 10_000, 290_000, 1), Removal.REWRITE),
        ((100_000_000, MILLION, 10_000, 10_000, 1), Removal.MERGED_DELETES),
        ((100_000_000, MILLION, 10_000, 200_000, 1), Removal.DELETES),
        ((100_000_000, MILLION, 10, 280_000, MOST_DELETE_FILES), Removal.MERGED_DELETES),
        ((60_000, 1_000, 1, 0, 0), Removal.REWRITE),
        ((300_000, 1_000, 1, 0, 0), Removal.DELETES),
        ((75_000, 1_000, 1, 0, 0), Removal.DELETES),
        ((75_000, 1_000, 99, 100, 1), Removal.REWRITE),  # of which 801 rows would be written
        ((100_000_000, MILLION, MILLION, 0, 0), Removal.REWRITE),
    ],
)
def test_some_files(asked: tuple[int, int, int, int, int], expected: Removal) -> None:
    size, rows, removed, already, delete_files = asked
    assert (
        removal_of(size, rows, removed_rows=removed, already_deleted_rows=already, delete_files=delete_files)
        is expected
    )


@given(files())
def test_small_files_are_written_anew(file: dict[str, int]) -> None:
    assert way(file, file_bytes=DELETE_FILE_BYTES) is Removal.REWRITE


@given(files(), st.integers(0, 10 * MILLION))
def test_what_is_written_anew_is_so_for_more_rows_too(file: dict[str, int], more: int) -> None:
    if way(file) is Removal.REWRITE:
        room = file["file_rows"] - file["removed_rows"] - file["already_deleted_rows"]
        assert way(file, removed_rows=file["removed_rows"] + min(more, room)) is Removal.REWRITE
        assert way(file, already_deleted_rows=file["already_deleted_rows"] + min(more, room)) is Removal.REWRITE


@given(files(), st.integers(1, 1 << 40))
def test_what_is_listed_is_so_in_a_larger_file_too(file: dict[str, int], more: int) -> None:
    if way(file) is not Removal.REWRITE:
        assert way(file, file_bytes=file["file_bytes"] + more) is way(file)


@given(files())
def test_a_file_whose_rows_are_listed_costs_more_to_write_and_is_mostly_live(file: dict[str, int]) -> None:
    found = way(file)
    deleted = file["removed_rows"] + file["already_deleted_rows"]
    if found is not Removal.REWRITE:
        assert deleted < MOST_DELETED * file["file_rows"]
        left = file["file_bytes"] * (file["file_rows"] - deleted) / file["file_rows"]
        assert left > listing_bytes(file["removed_rows"]) > DELETED_ROW_BYTES * file["removed_rows"]


@given(files())
def test_delete_files_do_not_pile_up(file: dict[str, int]) -> None:
    assert way(file, already_deleted_rows=0, delete_files=0) is not Removal.MERGED_DELETES
    if file["already_deleted_rows"]:
        assert way(file, delete_files=MOST_DELETE_FILES) is not Removal.DELETES


@dataclass
class Held:
    """A file of a table in numbers."""

    rows: int
    deleted: int = 0
    delete_files: int = 0


@pytest.mark.parametrize("row_bytes", [50, 250])
@pytest.mark.parametrize("files", [1, 8])
def test_fifty_commits_of_random_updates(row_bytes: int, files: int) -> None:
    """10,000 random updates of 1,000,000 rows a commit: at most 10 MB written on average, 1.6 times as much read as needed."""
    random, owner = np.random.default_rng(3), np.repeat(np.arange(files), MILLION // files)
    held = {number: Held(MILLION // files) for number in range(files)}
    written, read, most = 0, 0.0, 0
    for new in range(files, files + 50):
        updated = random.choice(MILLION, 10_000, replace=False)
        owner_then, moved = owner.copy(), 0
        for number, removed in zip(*np.unique(owner[updated], return_counts=True), strict=True):
            file = held[number]
            found = removal_of(
                file.rows * row_bytes, file.rows, removed_rows=int(removed),
                already_deleted_rows=file.deleted, delete_files=file.delete_files,
            )  # fmt: skip
            if found is Removal.REWRITE:
                moved += file.rows - file.deleted - int(removed)
                owner_then[owner == number] = new
                del held[number]
                continue
            written += DELETED_ROW_BYTES * int(removed)
            written += DELETED_ROW_BYTES * file.deleted if found is Removal.MERGED_DELETES else 0
            file.delete_files = 1 if found is Removal.MERGED_DELETES else file.delete_files + 1
            file.deleted += int(removed)
        owner = owner_then
        owner[updated] = new
        held[new] = Held(10_000 + moved)
        written += (10_000 + moved) * row_bytes
        assert sum(file.rows - file.deleted for file in held.values()) == MILLION
        most = max(most, *(file.delete_files for file in held.values()))
        cost = sum(
            file.rows * row_bytes + file.delete_files * DELETE_FILE_BYTES + file.deleted * DELETED_ROW_BYTES
            for file in held.values()
        )
        read = max(read, cost / (MILLION * row_bytes))
    assert written / 50 <= 10e6
    assert read <= 1.5
    assert most <= MOST_DELETE_FILES
