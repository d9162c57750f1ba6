"""A lake that cannot be made or written is found without making anything."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dts_assets.errors import UnwritableLakeError
from dts_assets.store.places import require_catalog_file, require_lake_folder


def everything_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("below", [".", "lake", "a/b/c", "名前"])
def test_a_place_that_can_be_made_is_left_as_it_was(tmp_path: Path, below: str) -> None:
    require_lake_folder(tmp_path / below)
    require_catalog_file(tmp_path / below / "catalog.db")
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("file", "there is a file of that name"),
        ("file/lake", "file is a file"),
        ("a#b", "one of # [?] %"),
        ("x" * 300, "file name too long"),
        ("/proc/lake", "cannot be written: "),
        ("loop/lake", "symbolic links"),
    ],
)
def test_a_place_that_cannot_be_made(tmp_path: Path, folder: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = everything_in(tmp_path)
    with pytest.raises(UnwritableLakeError, match=reason):
        require_lake_folder(tmp_path / folder)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("content", ["", "no database" * 100])
def test_a_catalog_is_a_database_or_nothing_yet(tmp_path: Path, content: str) -> None:
    file = tmp_path / "catalog.db"
    file.write_text(content)
    if content:
        with pytest.raises(UnwritableLakeError, match=r"its catalog catalog\.db cannot be opened"):
            require_catalog_file(file)
    else:
        require_catalog_file(file)
    assert file.read_text() == content


def test_a_catalog_that_is_in_use_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "a lake, 100 & more.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (a)")
        other.execute("BEGIN EXCLUSIVE")
        require_catalog_file(file)
