"""The generated protocol code is what ``proto/`` gives, and real bytes decode as the vendor's documents say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dts_assets.protocol import subscribe_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]

CHECKPOINT = (
    "0801100122350a330a0e08011001180620ecd3f09106580712213a1f0a06753a312d31331a106d7973716c2d62"
    "696e2e30303030303520a6b88801"
)
INSERT = (
    "0801100122610a5f0a1808011001180220a6d1f091064a036474735201745808680112431241120f0a0269641207696e7428313129180112090a016e"
    "12047465787412090a01731204746578741a18120508031a01331200120d080d1204757466382203746d70"
)
INSERT_HEAD = "0801100222140a5f0a1808011001180220a6d1f091064a036474"
INSERT_TAIL = (
    "080110021801224d735201745808680112431241120f0a0269641207696e7428313129180112090a016e12047465787412090a01731204746578741a"
    "18120508031a01331200120d080d1204757466382203746d70"
)


def _envelope(text: str) -> pb.Envelope:
    return pb.Envelope.FromString(bytes.fromhex(text))


def test_the_generated_code_is_current() -> None:
    found = subprocess.run(
        [sys.executable, str(ROOT / "proto" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_checkpoint_vector() -> None:
    envelope = _envelope(CHECKPOINT)
    assert (envelope.version, envelope.total, envelope.index) == (1, 1, 0)
    (entry,) = pb.Entries.FromString(envelope.data).items
    assert entry.header.messageType == pb.CHECKPOINT
    assert (entry.header.sourceType, entry.header.timestamp, entry.header.seqId) == (pb.MYSQL, 1648110060, 7)
    event = entry.event.checkpointEvent
    assert (event.syncedGtid, event.fileName, event.position) == ("u:1-13", "mysql-bin.000005", 2235430)


def test_the_insert_vector_has_neither_an_operation_nor_a_null_on_the_wire() -> None:
    (entry,) = pb.Entries.FromString(_envelope(INSERT).data).items
    dml = entry.event.dmlEvent
    assert dml.dmlEventType == pb.INSERT
    assert [(column.name, column.originalType, column.isKey) for column in dml.columns] == [
        ("id", "int(11)", True),
        ("n", "text", False),
        ("s", "text", False),
    ]
    number, null, text = dml.rows[0].newColumns
    assert (number.dataType, number.sv) == (pb.INT32, "3")
    assert null == pb.Data()
    assert null.ByteSize() == 0
    assert (text.dataType, text.charset, text.bv) == (pb.STRING, "utf8", b"tmp")


def test_the_split_vector_joins_to_the_whole_one() -> None:
    head, tail = _envelope(INSERT_HEAD), _envelope(INSERT_TAIL)
    assert [(part.total, part.index) for part in (head, tail)] == [(2, 0), (2, 1)]
    assert head.data + tail.data == _envelope(INSERT).data


def test_fields_that_are_younger_than_the_schema_are_tolerated() -> None:
    newer = bytes.fromhex(CHECKPOINT) + b"\xa2\x06\x03new"  # field 100
    assert pb.Envelope.FromString(newer).version == 1
