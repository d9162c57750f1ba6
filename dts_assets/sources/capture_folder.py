"""The files of a capture folder, found without reading any of them. Only the standard library is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dts_assets.errors.sources import CaptureError

_SUFFIX = ".parquet"


def capture_files(folder: Path) -> list[Path]:
    """Return the Parquet files below a folder, sorted; none if the folder does not exist yet.

    Raises:
        CaptureError: The path is a file, or a folder in it cannot be listed, which would look like an empty one.
    """
    if folder.is_file():
        raise CaptureError(str(folder), "it is a file; name the folder that it lies in")
    return sorted(_listed(folder)) if folder.is_dir() else []


def require_recording(folder: Path) -> None:
    """Refuse a folder that was declared a complete recording and holds none.

    Raises:
        CaptureError: There is no such folder, it cannot be listed, or it has no Parquet file.
    """
    if capture_files(folder):
        return
    what = "it has no Parquet file" if folder.is_dir() else "there is no such folder"
    raise CaptureError(
        str(folder), f"{what}; name the folder of the recording, or say `complete: false` if it is yet to be recorded"
    )


def _listed(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        reason = (error.strerror or "unknown reason").lower()
        raise CaptureError(str(folder), f"{error.filename} cannot be listed ({reason}); make it readable") from None

    for place, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(place, name) for name in names if name.endswith(_SUFFIX))
