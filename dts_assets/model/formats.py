"""The vocabulary of wire formats: their traits, and the settings that a format is made from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNCHANGED_VALUE = "unchanged-toast-datum"
"""The text of PostgreSQL's test_decoding for a large value that an UPDATE left as it was."""

CLOCK_ZONE = "+08:00"
"""The zone of clocks that name none, where neither the configuration nor a format says another."""


class Evidence(StrEnum):
    """Signs in a stream that prove which changes were delivered; the value is the name that people read."""

    CHECKPOINTS = "CHECKPOINTs"
    SEQUENCE_NUMBERS = "sequence numbers"
    GTIDS = "GTIDs"
    TRANSACTIONS = "BEGIN and COMMIT"


class ChangeOrder(StrEnum):
    """The numbers by which a format identifies and orders the changes of a source."""

    BINLOG_POSITION = "binlog position"
    """File and position in one server's binlog: another server begins anew, and a new lineage with it."""
    MESSAGE_ID = "message id"
    """Numbers of the vendor's task, which go on whichever server it reads.

    A task that is made anew begins a lineage.
    """
    ARRIVAL = "window and source time"
    """No numbers of the source: a change stands where it came.

    In its window it stands by the greatest source time so far, and there is one lineage. No change is a copy of another one,
    unless messages tell the time of their transaction, as those of TiCDC do.
    """


class Framing(StrEnum):
    """The frames that Avro records may stand in; the value is the word in ``framing``."""

    AUTO = "auto"
    """Each message tells by its bytes."""
    RAW = "raw"
    """A record and nothing else."""
    CONFLUENT = "confluent"
    """A zero byte and the number of a schema in four bytes stand before the record."""
    CONTAINER = "container"
    """An object container with the writer's own schema and any number of records."""


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """The facts about a format that other rooms must know; each format class has them as ``traits``.

    ``kind`` is the format's kind in Dagster's UI, such as ``protobuf``. ``needs_schema`` says that messages are read with a
    schema file of the customer's own, ``ignores_case`` that names of columns which differ in case only are spellings of one
    column, as in MySQL; in tables with a schema they never are. ``rows_apart`` says that each row of a binlog event is a message
    of its own. ``fraction_digits`` are the digits of a fraction of a second that messages carry: 3 in DTS Avro. ``roles`` are
    those that a configuration may name fields for, where no vendor's document fixes them: ``("operation", "table")``; such a
    format takes a framing, too. ``changed_only`` says that old rows have changed columns alone, and may leave out NULL.
    ``clock_zone`` is the zone of clocks that name none, where the configuration names none either.
    """

    kind: str
    evidence: frozenset[Evidence]
    order: ChangeOrder
    needs_schema: bool = False
    ignores_case: bool = False
    rows_apart: bool = False
    fraction_digits: int = 6
    roles: tuple[str, ...] = ()
    clock_zone: str = CLOCK_ZONE
    changed_only: bool = False


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """The settings of a subscription that a format is made from.

    ``source_time_zone`` (``+08:00`` or ``Asia/Shanghai``) is the zone of instants that carry none; ``schema`` is the content
    of the schema file, so that workers need no file. ``fields`` are pairs of a role and the field that plays it:
    ``("operation", "header.op")``. ``unchanged_value`` is the text for a large value that an UPDATE left as it was, None without
    such a text.
    """

    source_time_zone: str = "+00:00"
    schema: bytes | None = None
    framing: Framing = Framing.AUTO
    fields: tuple[tuple[str, str], ...] = ()
    unchanged_value: str | None = UNCHANGED_VALUE
