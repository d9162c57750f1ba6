"""A machine that loses its power right behind a commit: what was not synced is gone, and the lake is whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from dts_assets.flows.maintained_tables import maintained_paths
from dts_assets.store import durable, ledger_files
from dts_assets.store.catalog import SqliteCatalog
from dts_assets.store.table_files import named_places
from tests.flows.harness import Harness
from tests.flows.history import border
from tests.flows.in_process import bench_in_process
from tests.flows.short import LANES, items, three_windows
from tests.flows.source import Message, write_capture
from tests.tiers import chosen


class PowerFailure(BaseException):
    """Stands for the end of all processes."""


@dataclass
class Disk:
    """What is on the disk: files by their number, size and time when they were synced, and folders by their entries then.

    SQLite syncs its own file and the folder of it. An entry that was removed may come back, which harms nobody.
    """

    files: dict[Path, tuple[int, int, int]] = field(default_factory=dict)
    folders: dict[Path, set[tuple[str, int]]] = field(default_factory=dict)
    synced: int = 0
    commits: int = 0
    fails_at: int = -1
    works: bool = True

    def note(self, path: Path) -> None:
        if not self.works:
            return
        self.synced += 1
        if path.is_dir():
            self.folders[path] = {(one.name, one.stat().st_ino) for one in path.iterdir()}
        else:
            self.files[path] = self.sign(path)

    @staticmethod
    def sign(path: Path) -> tuple[int, int, int]:
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def holds(self, path: Path, root: Path) -> bool:
        """Say whether a file, and each folder down to it, would be found after a failure."""
        if self.files.get(path) != self.sign(path):
            return False
        above = [one for one in (path, *path.parents) if one.is_relative_to(root.parent) and one != root.parent]
        return all((one.name, one.stat().st_ino) in self.folders.get(one.parent, set()) for one in above)

    def committed(self) -> None:
        """A commit is on the disk: nothing that is synced behind it counts any more, if the power fails here."""
        if self.commits == self.fails_at:
            self.works = False
        self.commits += 1

    def lose(self, root: Path) -> int:
        """Remove from a folder what is not on the disk, and return how many files that were."""
        lost = 0
        for one in sorted(root.rglob("*")):
            if one.is_file() and "catalog.db" not in one.name and not self.holds(one, root):
                one.unlink()
                lost += 1
        return lost


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found, whole = Disk(), durable.sync
    asked = SqliteCatalog.__init__

    def sync(path: Path) -> None:
        whole(path)
        found.note(path)

    def opened(self: SqliteCatalog, name: str, **properties: str) -> None:
        asked(self, name, **properties)
        event.listen(self.engine, "commit", lambda _: found.committed())

    def surely(name: str) -> None:
        real = getattr(SqliteCatalog, name)

        def done(self: Any, *given: Any, **named: Any) -> Any:
            result = real(self, *given, **named)
            if not found.works:
                raise PowerFailure
            return result

        monkeypatch.setattr(SqliteCatalog, name, done)

    monkeypatch.setattr(durable, "sync", sync)
    monkeypatch.setattr(durable, "_FOLDERS", set())
    monkeypatch.setattr(SqliteCatalog, "__init__", opened)
    for name in ("commit_table", "create_table", "create_namespace"):
        surely(name)
    return found


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return list(three_windows(items("one")).messages)


def opened(folder: Path, messages: list[Message]) -> Harness:
    if not (folder / "capture").exists():
        write_capture(folder / "capture", messages)
    return bench_in_process(folder, "kept").open(
        folder / "capture", name="kept", partitions=LANES, window={"end": border(3)}
    )


def every_file(harness: Harness) -> set[Path]:
    tables = filter(None, map(harness.pipeline.lake.table, maintained_paths(harness.pipeline)))
    return {Path(place) for table in tables for place in named_places(table)}


@pytest.mark.more
def test_all_that_a_lake_names_is_on_the_disk(disk: Disk, messages: list[Message], tmp_path: Path) -> None:
    harness = opened(tmp_path, messages)
    harness.all(0)
    named, root = every_file(harness), tmp_path / "lake"
    assert len(named) > 40
    assert [one for one in named if not disk.holds(one, root)] == []
    with harness.pipeline.lake.catalog.engine.connect() as connection:  # type: ignore[attr-defined]
        (level,) = connection.exec_driver_sql("PRAGMA synchronous").one()
        assert level >= 2, "SQLite syncs its file before it answers"
    # Seven for most commits: a data file, a manifest, the list, two folders, the metadata, and its folder once more.
    assert disk.synced < 9 * disk.commits


@pytest.mark.more
@pytest.mark.parametrize("at", chosen([29, 3, 17, 41, *range(42)], 2))
def test_after_a_power_failure_the_lake_is_whole_and_the_next_run_completes_it(
    at: int, disk: Disk, messages: list[Message], tmp_path: Path
) -> None:
    undisturbed = opened(tmp_path / "undisturbed", messages)
    undisturbed.settle()
    disk.commits, disk.fails_at = 0, at
    harness = opened(tmp_path / "failing", messages)
    with pytest.raises(PowerFailure):
        harness.settle()
    disk.works, disk.fails_at = True, -1
    disk.lose(tmp_path / "failing" / "lake")
    ledger_files.forget()
    durable._FOLDERS.clear()
    again = opened(tmp_path / "failing", messages)
    for one in every_file(again):
        assert one.exists(), one
    again.settle()
    assert again.everything() == undisturbed.everything()
