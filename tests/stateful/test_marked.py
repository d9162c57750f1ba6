"""The search for plain values: it finds a mark in each form, in compressed files and in lines, and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stateful.marked import FIRST_KEY, MARK, person_key, persons, plain_places

TEXT = f'he said "{MARK}7" in 铁观音'


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-be"),
        json.dumps(TEXT).encode(),
        "".join(f"\\u{ord(sign):04x}" for sign in TEXT).encode(),
        TEXT.encode().hex().encode(),
        *(base64.b64encode(b"x" * before + TEXT.encode()) for before in range(4)),
        str(FIRST_KEY + 7).encode(),
    ],
)
def test_a_mark_is_found_in_each_form(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "changelog").mkdir()
    (tmp_path / "changelog" / "file").write_bytes(b"before" + content + b"after")
    (place,) = plain_places([tmp_path], ())
    assert place.startswith("changelog/file (")
    (tmp_path / "changelog" / "file").write_bytes(content.replace(b"7", b""))
    assert not plain_places([tmp_path / "none"], ["a line"])


def test_a_mark_is_found_in_compressed_files_and_in_lines(tmp_path: Path) -> None:
    rows = [{"one": {"text": TEXT, "bytes": TEXT.encode(), "number": FIRST_KEY + 3}}] * 50
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data.parquet", compression="zstd")
    schema = {"type": "record", "name": "r", "fields": [{"name": "bound", "type": "bytes"}]}
    with (tmp_path / "manifest.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"bound": TEXT.encode()}] * 50, codec="deflate")
    assert [place.partition(" ")[0] for place in plain_places([tmp_path], [TEXT])] == [
        "data.parquet",
        "manifest.avro",
        "a",
    ]
    assert not plain_places([tmp_path], [], beside=frozenset({"data.parquet", "manifest.avro"}))


def test_all_values_of_persons_have_a_mark() -> None:
    row = persons().row(Random(1), id=person_key(0))
    assert all(value is None or MARK in str(value) for name, value in row.items() if name != "id")
