"""Expiry where history is no line: every version that stays has its rows, and no file is left that none of them holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from dts_assets.store import expiry
from dts_assets.store.commit import files_in, replace
from dts_assets.store.expiry import KEEP_FOR, expire_snapshots
from dts_assets.store.table_folders import place_of, wrote
from tests.tiers import times

if TYPE_CHECKING:
    from tests.store.conftest import Cells

LATER = datetime.now(UTC) + KEEP_FOR + timedelta(days=1)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 2)
    monkeypatch.setattr(expiry, "AT_ONCE", 1)


class Tree:
    """A table whose versions descend from each other in any way, with the rows that each of them has."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.rows: dict[int, list[str]] = {}
        self.made = 0

    @property
    def table(self) -> Table:
        return self.cells.catalog.load_table(self.cells.identifier)

    @property
    def versions(self) -> list[int]:
        return [one.snapshot_id for one in self.table.metadata.snapshots]

    @property
    def head(self) -> int | None:
        return self.table.metadata.current_snapshot_id

    def note(self) -> None:
        """Remember the rows of versions that are new."""
        table = self.table
        for one in table.metadata.snapshots:
            if one.snapshot_id not in self.rows:
                self.rows[one.snapshot_id] = self.shown(table, one.snapshot_id)

    @staticmethod
    def shown(table: Table, version: int) -> list[str]:
        return sorted(map(repr, table.scan(snapshot_id=version).to_arrow().to_pylist()))

    def commit(self, partition: int = 0, window: int = 0, *, add: bool = False) -> int:
        self.made += 1
        files = self.cells.write([(partition, window)], f"g{self.made}", rows=2)
        keep = (lambda _: True) if add else None
        rectangle = self.cells.rectangle([partition], [window])
        done = replace(self.cells.catalog, self.cells.identifier, rectangle, files, keep=keep)
        assert done.snapshot_id is not None
        self.note()
        return done.snapshot_id

    def commit_on(self, branch: str) -> None:
        self.made += 1
        rows = self.cells.batch([(self.made % 2, self.made % 3)], f"g{self.made}", rows=2)
        self.table.append(pa.Table.from_batches([rows]), branch=branch)
        self.note()

    def point(self, name: str, version: int, kind: SnapshotRefType = SnapshotRefType.BRANCH) -> None:
        """Set a branch or tag, as rollback, fast-forward and publishing of a staged version do."""
        update = SetSnapshotRefUpdate(
            ref_name=name, type=kind, snapshot_id=version,
            max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
        )  # fmt: skip
        self.table._do_commit((update,), ())

    def forget(self, name: str) -> None:
        """Remove a branch or tag; without main the next version has no parent, as of a table that is replaced."""
        self.table._do_commit((RemoveSnapshotRefUpdate(ref_name=name),), ())

    def expire(self, *needed: int) -> int:
        return expire_snapshots(self.cells.catalog, self.cells.identifier, needed=needed, now=LATER)

    def check_rows(self) -> None:
        """Every version has its rows."""
        for version in self.versions:
            assert self.shown(self.table, version) == self.rows[version]

    def check(self) -> None:
        """Every version has its rows, and the disk has what they need and nothing else."""
        table = self.table
        needed, lists = set[str](), set[str]()
        for one in table.metadata.snapshots:
            assert self.shown(table, one.snapshot_id) == self.rows[one.snapshot_id]
            needed |= {file.file_path for file in files_in(table, {}, snapshot_id=one.snapshot_id)}
            lists |= {one.manifest_list, *(manifest.manifest_path for manifest in one.manifests(table.io))}
        folder = Path(table.location().removeprefix("file://"))
        there = {f"file://{path}" for path in (folder / "data").rglob("*.parquet")}
        # Those that a branch got are pyiceberg's, which removes what it wrote itself.
        assert needed <= there
        assert {path for path in there if wrote(table, place_of(path))} <= needed
        assert {f"file://{path}" for path in (folder / "metadata").glob("*.avro")} == lists


@pytest.fixture
def tree(cells: Cells) -> Tree:
    return Tree(cells)


def test_a_table_that_was_set_back_keeps_the_files_that_it_shows(tree: Tree) -> None:
    made = [tree.commit() for _ in range(4)]
    tree.point("main", made[0])  # what the later versions deleted is live again
    for window in (1, 2, 0):
        tree.commit(0, window)
    assert tree.expire() == 5
    tree.check()


def test_a_branch_keeps_what_main_has_deleted(tree: Tree) -> None:
    tree.commit(0, 0)
    tree.commit(0, 1)
    tree.point("audit", tree.commit(0, 2))
    tree.commit_on("audit")
    for window in (0, 1, 2, 0, 1):
        tree.commit(0, window)
    assert tree.expire() == 6
    tree.check()
    tree.forget("audit")
    assert tree.expire() == 1
    tree.check()


def test_what_a_tag_held_goes_after_the_tag(tree: Tree) -> None:
    """The version that deleted its files has gone long before."""
    tagged = tree.commit(0, 0)
    tree.point("cut", tagged, SnapshotRefType.TAG)
    for _ in range(4):
        tree.commit(0, 0)
    tree.expire()
    tree.check()
    assert tagged in tree.versions
    tree.forget("cut")
    tree.commit(0, 1)
    tree.expire()
    tree.check()
    assert len(tree.versions) == 2


def test_a_version_that_came_from_a_branch(tree: Tree) -> None:
    """Main is set forward to the head of a branch, and from there back to a version on neither line."""
    first = tree.commit(0, 0)
    tree.point("side", first)
    tree.commit_on("side")
    tree.commit_on("side")
    tree.commit(0, 0)
    tree.point("main", tree.table.metadata.refs["side"].snapshot_id)
    tree.forget("side")
    tree.commit(0, 1)
    tree.commit(0, 1)
    tree.expire()
    tree.check()


def test_a_table_that_was_replaced(tree: Tree) -> None:
    old = [tree.commit(0, window) for window in range(3)]
    tree.point("before", old[1], SnapshotRefType.TAG)
    tree.forget("main")
    for window in (0, 0, 1):
        tree.commit(1, window)
    assert tree.expire() == 3
    tree.check()


@pytest.mark.parametrize("seed", range(times(4, 60)))
def test_random_trees(seed: int, tree: Tree) -> None:
    random = Random(seed)
    names: list[str] = []

    def any_version() -> int:
        return random.choice(tree.versions)

    def name_one() -> None:
        names.append(f"r{tree.made}_{len(names)}")
        tree.point(names[-1], any_version(), random.choice([SnapshotRefType.BRANCH, SnapshotRefType.TAG]))

    def on_branch() -> None:
        branches = [name for name in names if tree.table.metadata.refs[name].snapshot_ref_type == "branch"]
        if branches:
            tree.commit_on(random.choice(branches))

    def drop_name() -> None:
        if names:
            tree.forget(names.pop(random.randrange(len(names))))

    def replaced() -> None:
        tree.forget("main")
        tree.commit(0, 0)

    def expired() -> None:
        tree.expire(*random.sample(tree.versions, random.randrange(3) if len(tree.versions) > 2 else 0))
        tree.check()

    def committed() -> None:
        tree.commit(random.randrange(2), random.randrange(2), add=random.random() < 0.3)

    actions: list[tuple[Callable[[], Any], int]] = [
        (committed, 8), (lambda: tree.point("main", any_version()), 2), (name_one, 2), (on_branch, 3), (drop_name, 2),
        (replaced, 1), (expired, 3),
    ]  # fmt: skip
    tree.commit()
    for action in random.choices([one for one, _ in actions], [weight for _, weight in actions], k=times(14, 40)):
        action()
    expired()


def test_a_table_whose_versions_cannot_all_be_read_is_left_alone(tree: Tree) -> None:
    for _ in range(6):
        tree.commit()
    table, said = tree.table, list[str]()
    newest = table.current_snapshot()
    assert newest is not None
    Path(newest.manifests(table.io)[0].manifest_path.removeprefix("file://")).write_bytes(b"cut")
    Path(newest.manifest_list.removeprefix("file://")).write_bytes(b"cut off")
    before = set(Path(table.location().removeprefix("file://")).rglob("*"))
    assert expire_snapshots(tree.cells.catalog, tree.cells.identifier, now=LATER, warn=said.append) == 0
    assert "cannot be read" in said[0]
    assert len(tree.versions) == 6
    assert set(Path(table.location().removeprefix("file://")).rglob("*")) == before


def test_a_table_that_forbids_it_is_left_alone(tree: Tree) -> None:
    for _ in range(6):
        tree.commit()
    with tree.table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    said: list[str] = []
    assert expire_snapshots(tree.cells.catalog, tree.cells.identifier, now=LATER, warn=said.append) == 0
    assert "gc.enabled" in said[0]
    tree.check()


def test_files_of_another_table_stay(tree: Tree, tmp_path: Path) -> None:
    """A table may have borrowed files, as Spark's procedures snapshot and add_files let it."""
    (file,) = tree.cells.write([(0, 0)], "theirs", rows=2)
    theirs = tmp_path / "theirs.parquet"
    Path(file.path.removeprefix("file://")).rename(theirs)
    table = tree.table
    table.add_files([theirs.as_uri()])
    for _ in range(4):
        tree.commit()
    assert tree.expire() == 3
    assert theirs.exists()


@pytest.mark.parametrize("event", ["main", "tag"])
def test_a_branch_that_moves_meanwhile_is_not_lost(tree: Tree, event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sets main back, or a known tag, to a version that is being expired."""
    made = [tree.commit() for _ in range(6)]
    tree.point("tag", made[-1], SnapshotRefType.TAG)
    real, moved, own = Table._do_commit, list[int](), tree.table.name()

    def interrupted(table: Table, updates: Any, requirements: Any) -> None:
        # A thread that another test has left may commit to its own table first.
        if not moved and table.name() == own:
            moved.append(1)
            tree.point(event, made[1], SnapshotRefType.TAG if event == "tag" else SnapshotRefType.BRANCH)
        real(table, updates, requirements)

    monkeypatch.setattr(Table, "_do_commit", interrupted)
    assert tree.expire() == 0
    assert tree.versions == made
    tree.check()


def test_a_version_made_on_a_branch_meanwhile_keeps_its_files(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be asked whether there is a new branch; its version is found in the table as it is afterwards."""
    made = [tree.commit(0, number) for number in range(6)]
    for number in range(6):
        tree.commit(0, number)
    real, moved, own = Table._do_commit, list[int](), tree.table.name()

    def interrupted(table: Table, updates: Any, requirements: Any) -> None:
        if not moved and table.name() == own:
            moved.append(1)
            tree.point("new", made[5])
            tree.commit_on("new")
        real(table, updates, requirements)

    monkeypatch.setattr(Table, "_do_commit", interrupted)
    tree.expire()
    monkeypatch.undo()
    tree.check_rows()
