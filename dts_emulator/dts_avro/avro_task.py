"""The task in Avro."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import tell
from dts_emulator.dts.record_task import RecordEncoder, RecordTask
from dts_emulator.dts_avro.records import encoded, records_of
from dts_emulator.messages.clocks import Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Transaction


@dataclass(frozen=True, slots=True)
class AvroOptions(DtsOptions):
    """One subscription task in Avro."""

    text_as: Literal["character", "binary"] = "character"
    """The kind of values of the TEXT types.

    The vendor's table names the BLOB types alone, which the binlog does not tell from them: ``binary`` is BinaryObject.
    """


def produce_avro(
    transactions: Iterable[Transaction], options: AvroOptions, *, until: int | None = None
) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions``, in sending order.

    ``until`` is the time in seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on after the last transaction.
    """
    yield from tell(AvroTask(options, SourceClock(options.bytes_per_second)), transactions, until=until)


class AvroTask(RecordTask):
    """A task of the vendor, whose messages are records in Avro."""

    def __init__(self, options: AvroOptions, clock: Clock) -> None:
        super().__init__(AvroEncoder(options, clock=clock, text_as_bytes=options.text_as == "binary"), options, clock)


@dataclass(slots=True)
class AvroEncoder(RecordEncoder):
    """Encodes events as records in Avro. ``text_as_bytes`` says that TEXT columns are bytes."""

    text_as_bytes: bool = False

    def records_of(self, entry: pb.Entry) -> Iterator[dict[str, Any]]:
        """Yield the records of an entry."""
        return records_of(entry, text_as_bytes=self.text_as_bytes)

    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record."""
        return encoded(record)
