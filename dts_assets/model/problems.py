"""The problems that a message, a window or a row can have.

They are fixed lists of codes that ledgers, checks and documents share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemCode(StrEnum):
    """Why a window is less complete than it could be; stands in ``windows.problems`` and ``cuts.problems``."""

    WAITING = "waiting"
    """An entry set whose head lies in a window that is not stored yet."""
    QUARANTINED = "quarantined"
    """Messages or entries of this window are in quarantine."""
    GAP = "gap"
    """Offsets that the source no longer has, or never had where contiguity was promised."""
    CLOCK = "clock"
    """Messages dated beyond now plus the allowed clock skew; passed over when window boundaries are found."""
    FORMAT = "format"
    """Nearly all messages are in quarantine, and they look like messages of another format."""
    ROLLBACK = "rollback"
    """A ROLLBACK entry, which the vendor documents as unused."""
    UNENDED = "unended"
    """Fragments that the window before carried out are not those that this window carries in."""
    INTERRUPTED = "interrupted"
    """The producer broke an entry set off and has not sent it again yet; the next window decides."""
    TRANSACTION = "transaction"
    """A transaction without its BEGIN or its COMMIT, in a stream that has these entries."""
    GTIDS = "gtids"
    """Transactions that a CHECKPOINT says were sent and that no Kafka partition gave."""
    SEQUENCE = "sequence"
    """The numbers in ``ps`` began again at 1; they cannot show messages that were lost just before."""
    LINEAGES = "lineages"
    """Another server's binlog begins, and messages do not prove which changes are the same or come first."""
    ID = "id"
    """An id below one before it that is no copy, and nothing shows that ids begin again."""
    RELOAD = "reload"
    """Rows of a full load that came behind other changes of their table; each was added."""
    UNKNOWN = "unknown"
    """Fields, data types or charset names that this version does not know; the values were kept."""
    DDL = "ddl"
    """A statement that may change rows as no event tells, such as a changed type."""


class Reason(StrEnum):
    """Why something is in quarantine; stands in ``quarantine.reason``."""

    UNDECODABLE_MESSAGE = "undecodable_message"
    WRONG_VERSION = "wrong_version"
    CONTRADICTORY_FRAGMENT = "contradictory_fragment"
    """total 0, index at or beyond total, or a total that differs inside one entry set."""
    MISSING_HEAD = "missing_head"
    MISSING_FRAGMENT = "missing_fragment"
    UNDECODABLE_ENTRIES = "undecodable_entries"
    UNDECODABLE_ENTRY = "undecodable_entry"
    UNKNOWN_MESSAGE_TYPE = "unknown_message_type"
    UNKNOWN_OPERATION = "unknown_operation"
    RAGGED_ROW = "ragged_row"
    """A row whose number of values is neither zero nor the number of columns."""
    UNSUPPORTED_SOURCE = "unsupported_source"
    """A message of the format from a source of which the vendor documents no such messages."""
    TOO_LARGE = "too_large"
    """Input that takes far more memory than it has bytes, or a set beyond a gibibyte."""
    AMBIGUOUS = "ambiguous"
    """A change of a table without a key that may mean several different rows of its snapshot."""
    UNEXPECTED = "unexpected"
    """An error of decoding that this code does not expect.

    It is a fault of dts-assets, and the detail is its place.
    """


class Completeness(StrEnum):
    """The completeness level of a window, weakest first."""

    INCOMPLETE = "incomplete"
    OBSERVED = "observed"
    CONTIGUOUS = "contiguous"
    PROVEN = "proven"

    @property
    def rank(self) -> int:
        """The place in the order of levels: 0 for ``incomplete``, the weakest."""
        return list(Completeness).index(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a window, with the offsets it covers (inclusive; None where it has none)."""

    code: ProblemCode
    first_offset: int | None
    last_offset: int | None
    detail: str
