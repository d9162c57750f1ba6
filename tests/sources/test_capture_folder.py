"""A recording that is not where the settings say is refused, and one that is yet to come is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dts_assets.errors.sources import CaptureError
from dts_assets.sources.capture_folder import capture_files, require_recording
from dts_assets.sources.capture_source import CaptureSource


def nothing(_: Path) -> None:
    """There is no such folder."""


def empty(place: Path) -> None:
    place.mkdir()


def dangling(place: Path) -> None:
    place.symlink_to("gone")


def others(place: Path) -> None:
    place.mkdir()
    (place / "README.md").write_text("no message")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (nothing, "no such folder"),
        (dangling, "no such folder"),
        (empty, "no Parquet file"),
        (others, "no Parquet file"),
    ],
)
def test_a_complete_recording_has_to_be_there(tmp_path: Path, made: Callable[[Path], None], reason: str) -> None:
    place = tmp_path / "capture"
    made(place)
    assert CaptureSource(str(place), 1).now() is None
    for refused in (require_recording, lambda folder: CaptureSource(str(folder), 1, complete=True).watermarks()):
        with pytest.raises(CaptureError, match=reason) as raised:
            refused(place)
        assert str(place) in str(raised.value)
        assert "complete: false" in str(raised.value)


def test_files_are_found_in_folders_of_folders(tmp_path: Path) -> None:
    names = ["a.parquet", "b/part.parquet", "b/whole.parquet/part-0.parquet"]
    for name in [*names, "a.parquet.tmp"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in capture_files(tmp_path)] == names


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refuse(place: str) -> Iterator[os.DirEntry[str]]:
        if Path(place).name == "closed":
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CaptureError, match=r"closed cannot be listed \(permission denied\); make it readable"):
        capture_files(tmp_path)
