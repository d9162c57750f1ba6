"""The task in JSON, and the choices that the vendor's page leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.protocol import subscribe_pb2 as pb
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import tell
from dts_emulator.dts.record_task import RecordEncoder, RecordTask
from dts_emulator.dts_json.json_records import Images, encoded, records_of
from dts_emulator.messages.clocks import Clock, SourceClock
from dts_emulator.messages.message import Message
from dts_emulator.source.events import Transaction


@dataclass(frozen=True, slots=True)
class JsonOptions(DtsOptions):
    """One subscription task in JSON."""

    images: Images = "texts"
    """The form of oldColumns and newColumns.

    ``texts``: a list in the order of the columns, in which a column that was not sent is null as NULL is; ``objects``: a list of
    objects with ``charset`` and ``value``; ``names``: an object by the names of columns, without those that were not sent.
    """
    whole_dates: bool = False
    """DATE values have all parts of the one form that the page has for times: ``2026-01-05 00:00:00.000``."""


def produce_json(
    transactions: Iterable[Transaction], options: JsonOptions, *, until: int | None = None
) -> Iterator[Message]:
    """Yield the messages of a task that reads ``transactions``, in sending order.

    ``until`` is the time in seconds since the epoch up to which CHECKPOINTs and HEARTBEATs go on after the last transaction.
    """
    yield from tell(JsonTask(options, SourceClock(options.bytes_per_second)), transactions, until=until)


class JsonTask(RecordTask):
    """A task of the vendor, whose messages are records in JSON."""

    def __init__(self, options: JsonOptions, clock: Clock) -> None:
        encoder = JsonEncoder(options, clock=clock, images=options.images, whole_dates=options.whole_dates)
        super().__init__(encoder, options, clock)


@dataclass(slots=True)
class JsonEncoder(RecordEncoder):
    """Encodes events as records in JSON."""

    images: Images = "texts"
    whole_dates: bool = False

    def records_of(self, entry: pb.Entry) -> Iterator[dict[str, Any]]:
        """Yield the records of an entry."""
        return records_of(entry, images=self.images, whole_dates=self.whole_dates)

    def encoded(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record."""
        return encoded(record)
