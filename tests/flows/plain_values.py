"""The search for plain values in all files of a lake, but for the places that docs/rules.md names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

AS_SENT = {"raw_envelopes", "entries", "ddl"}
"""The tables that hold messages and statements as they were sent."""


def plain_values(lake: Path, marks: Iterable[str]) -> dict[str, list[str]]:
    """The files that hold one of some texts, decompressed, with these texts; files of versions that expired are not there."""
    found, some = dict[str, list[str]](), list(marks)
    for path in lake.rglob("*"):
        if not path.is_file() or AS_SENT & set(path.parts):
            continue
        held = path.read_bytes()
        if path.suffix == ".parquet":
            held += "\n".join(map(repr, pq.ParquetFile(path).read().to_pylist())).encode()
        if here := [mark for mark in some if mark.encode() in held]:
            found[str(path.relative_to(lake))] = here
    return found
