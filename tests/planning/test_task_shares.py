"""How the entries files of windows are shared out to tasks: nothing left out, nothing twice, a window's files together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from dts_assets.planning.task_shares import TASK_BYTES, TASKS_PER_CORE, shared_files

START = datetime(2026, 1, 5, tzinfo=UTC)

sizes = st.one_of(st.integers(1, 1000), st.integers(1, 3 * TASK_BYTES))


@given(st.lists(st.lists(sizes, min_size=1, max_size=5), max_size=30), st.integers(1, 12))
def test_every_file_goes_to_one_task_and_windows_are_cut_only_where_there_are_few(
    windows: list[list[int]], cores: int
) -> None:
    files = {
        START + number * timedelta(hours=1): [
            ((f"{number:02d}-{part}-late", f"{number:02d}-{part}-early"), size) for part, size in enumerate(parts)
        ]
        for number, parts in enumerate(windows)
    }
    owner = {path: start for start, some in files.items() for paths, _ in some for path in paths}
    size_of = {path: size for some in files.values() for (path, _), size in some}
    tasks = list(shared_files(files, cores=cores))
    assert sorted(path for paths, _ in tasks for path in paths) == sorted(owner)
    for paths, by_window in tasks:
        assert len([key for key, _ in groupby(paths, owner.__getitem__)]) == len(by_window), (
            "a window's files stand together"
        )
        for start, size in by_window.items():
            assert size == sum(size_of.get(path, 0) for path in paths if owner[path] == start)
            mine = [path for path in paths if owner[path] == start]
            assert mine[1::2] == [path.replace("late", "early") for path in mine[::2]], (
                "a cell's files keep their order"
            )
        assert len(by_window) == 1 or sum(by_window.values()) <= TASK_BYTES
    if len(windows) > TASKS_PER_CORE * cores:
        assert all(len([1 for _, by_window in tasks if start in by_window]) == 1 for start in files)


def test_a_thousand_small_windows_are_few_tasks_and_one_window_of_many_files_is_several() -> None:
    small = {START + number * timedelta(hours=1): [((str(number),), 10_000)] for number in range(1000)}
    assert 4 <= len(list(shared_files(small, cores=2))) <= 8
    assert len(list(shared_files({START: [((str(number),), 10_000) for number in range(8)]}, cores=2))) == 4


def test_a_cluster_gets_tasks_for_all_of_its_cores() -> None:
    one = {START: [((str(number),), 10_000) for number in range(100)]}
    assert len(list(shared_files(one, cores=32))) == 64
    small = {START + number * timedelta(hours=1): [((str(number),), 10_000)] for number in range(1000)}
    assert 64 <= len(list(shared_files(small, cores=32))) <= 128
