"""Files are brought to the disk whatever the process is doing, and trouble of the disk is heard."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dts_assets.store import durable
from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.durable import bring_to_disk

ENDING = """
import atexit, sys
from dts_assets.store.durable import bring_to_disk
bring_to_disk([sys.argv[1]])
atexit.register(lambda: (bring_to_disk([sys.argv[1]]), print("synced at the end")))
"""


@pytest.mark.more
def test_a_process_that_ends_still_commits(tmp_path: Path) -> None:
    """Leases are given back then, and no thread can be started any more."""
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path / "file")], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("synced at the end\n", "")


def test_a_broken_disk_is_heard_and_a_folder_that_cannot_be_synced_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    real = os.fsync

    def trouble(number: int, *, of: str) -> None:
        def fsync(opened: int) -> None:
            is_folder = Path(f"/proc/self/fd/{opened}").is_dir()
            if is_folder == (of == "folders"):
                raise OSError(number, os.strerror(number))
            real(opened)

        monkeypatch.setattr(os, "fsync", fsync)

    monkeypatch.setattr(durable, "_FOLDERS", set())
    trouble(errno.EINVAL, of="folders")
    bring_to_disk([str(tmp_path / "file"), "s3://bucket/file"])
    for of in ("files", "folders"):
        trouble(errno.EIO, of=of)
        with pytest.raises(OSError, match="Input/output error"):
            bring_to_disk([str(tmp_path / "file")])


def test_folders_above_are_synced_once_and_a_new_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    monkeypatch.setattr(durable, "_FOLDERS", set())
    monkeypatch.setattr(durable, "sync", synced.append)
    file = tmp_path / "table" / "data" / "run" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    bring_to_disk([file.as_uri()])
    assert {file, file.parent, tmp_path / "table" / "data", tmp_path / "table", tmp_path} <= set(synced)
    synced.clear()
    bring_to_disk([file.as_uri()])
    assert sorted(synced) == [file.parent, file]
    file.unlink()
    file.parent.rmdir()
    (tmp_path / "another").mkdir()  # takes the number of the folder that went, perhaps
    file.parent.mkdir()
    file.touch()
    synced.clear()
    bring_to_disk([str(file)])
    assert {file, file.parent} <= set(synced)


def test_the_new_folder_of_a_catalog_is_on_the_disk_before_the_catalog_names_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite brings its own file there, and not the folders above."""
    synced = list[Path]()
    monkeypatch.setattr(durable, "_FOLDERS", set())
    monkeypatch.setattr(durable, "sync", synced.append)
    catalog = tmp_path / "far" / "away" / "catalog.db"
    open_catalog(LakeLocation(str(tmp_path / "lake"), {"uri": str(catalog)})).close()
    assert {tmp_path / "far", tmp_path} <= set(synced)
