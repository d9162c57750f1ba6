"""The row changes of a PostgreSQL, as its logical decoding tells them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a tuple: its column, the column's type without length, and PostgreSQL's text.

    ``text`` is None for NULL. Of a large value that an UPDATE left as it was, which the log does not have, ``is_unchanged`` is
    true.
    """

    name: str
    type: str
    text: str | None
    is_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a row.

    ``operation`` is ``INSERT``, ``UPDATE`` or ``DELETE``. ``old`` has the columns of the replica identity, without those that are
    NULL; it is None where nothing is told of the old row, as in an UPDATE that left its key as it was. ``lsn`` is where its
    record stands in the write-ahead log; rows of one COPY may share it.
    """

    schema: str
    table: str
    operation: str
    old: tuple[Cell, ...] | None
    new: tuple[Cell, ...] | None
    lsn: int = 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """The row changes of a transaction, in order, and the time of its commit.

    In the write-ahead log it begins at ``first_lsn``, and its commit ends at ``end_lsn``. Others may stand between: transactions
    are told in the order of their commits.
    """

    number: int
    committed: datetime
    changes: tuple[RowChange, ...]
    first_lsn: int = 0
    end_lsn: int = 0


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table in the catalog: pairs of name and type, and the primary key.

    ``is_whole`` says that the replica identity is the whole row. ``declared`` has the types with their lengths. ``index`` are the
    columns of the index that is the replica identity; none where it is no index that somebody chose.
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    is_whole: bool
    declared: tuple[str, ...] = ()
    index: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that are logged of an old row."""
        return self.index or self.key
