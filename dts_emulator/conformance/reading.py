"""A suite on disk, and the names of its files. Nothing here knows how messages are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dts_emulator.errors import NotASuite

SUITE, CASE, MESSAGES, SCHEMA = "suite.json", "case.json", "messages.jsonl", "schema.avsc"
CAPTURE, EXPECTED, CHANGES = "capture", "expected", "expected_changes"


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A case of a suite on disk."""

    format: str
    name: str
    folder: Path
    described: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The folder below the suite."""
        return f"{self.format}/{self.name}"


def read_suite(folder: Path) -> tuple[ReadCase, ...]:
    """Return the cases of a suite whose files are as they were written.

    Raises:
        NotASuite: The folder has no suite, or a file of it is missing or another one.
    """
    try:
        suite = json.loads((folder / SUITE).read_text("utf-8"))
        sums: Mapping[str, str] = suite["sha256"]
        listed = [(one["format"], one["case"]) for one in suite["cases"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise NotASuite(folder, f"there is no {SUITE} that lists cases and files") from None
    for name, expected in sums.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != expected:
            raise NotASuite(folder, f"{name} is not the file that was written")
    return tuple(
        ReadCase(format_name, name, folder / format_name / name,
                 json.loads((folder / format_name / name / CASE).read_text("utf-8")))
        for format_name, name in listed
    )  # fmt: skip


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
