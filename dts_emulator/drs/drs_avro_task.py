"""The DRS task in Avro: the messages of the task in JSON, as records of an assumed schema.

The vendor's schema is in a file that only customers get. ``Record.avsc`` beside this module stands in for it: it has the fields
of the vendor's JSON, and rows as maps of texts.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import fastavro
from fastavro.types import Schema

from dts_emulator.drs.drs_options import DrsJsonOptions
from dts_emulator.drs.drs_task import DrsTask, tell
from dts_emulator.drs.message_encoder import Fields
from dts_emulator.messages.clocks import Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Transaction


@dataclass(frozen=True, slots=True)
class DrsAvroOptions(DrsJsonOptions):
    """A task with the format Avro. The vendor names no frame."""

    framing: Literal["raw", "confluent", "container"] = "raw"
    schema_id: int = 1
    """The number of the schema in Confluent's header."""


class DrsAvroTask(DrsTask):
    """A task of the vendor, whose messages are records."""

    def __init__(self, options: DrsAvroOptions, clock: Clock) -> None:
        super().__init__(options, clock)
        self._framing, self._schema_id = options.framing, options.schema_id

    def _encoded(self, fields: Fields, *, number: int, milliseconds: int) -> bytes:
        record = {"id": number, "ts": milliseconds, **fields}
        if self._framing == "container":
            out = io.BytesIO()
            marker = hashlib.sha256(str(number).encode()).digest()[:16]  # a recording has equal bytes each time
            fastavro.writer(out, record_schema(), [record], sync_marker=marker)
            return out.getvalue()
        head = bytes(1) + self._schema_id.to_bytes(4, "big") if self._framing == "confluent" else b""
        return head + encoded_record(record)


def produce_drs_avro(transactions: Iterable[Transaction], options: DrsAvroOptions) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions``, in sending order.

    Raises:
        UnsupportedSource: The full load cannot be computed.
    """
    yield from tell(DrsAvroTask(options, SourceClock(options.bytes_per_second)), transactions)


@cache
def drs_schema_file() -> bytes:
    """Return the content of ``Record.avsc``."""
    return files(__package__).joinpath("Record.avsc").read_bytes()


@cache
def record_schema() -> Schema:
    """Return fastavro's form of ``Record.avsc``."""
    return fastavro.parse_schema(json.loads(drs_schema_file()))


def encoded_record(record: Fields) -> bytes:
    """Return a record in bare binary encoding."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, record_schema(), record)
    return out.getvalue()
