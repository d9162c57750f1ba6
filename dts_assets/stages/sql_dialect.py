"""The narrow interface of a dialect of SQL, for which :mod:`dts_assets.stages.statements` writes statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import pyarrow as pa

from dts_assets.model.columns import Column
from dts_assets.model.tables import TableId
from dts_assets.stages.keys import Mask


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a source table, with its name and its type there: ``id`` and ``bigint(20)``.

    The type is empty where the source tells none.
    """

    column: Column
    name: str
    source_type: str = ""

    @property
    def kind(self) -> str:
        """The source type without arguments, in lower case: ``varchar`` for ``VARCHAR(20)``."""
        words = self.source_type.lower().partition("(")[0].split()
        return words[0] if words else ""


@dataclass(frozen=True, slots=True)
class Literals:
    """Values as SQL writes them; null stands for NULL.

    ``refused`` has the rows whose value the dialect cannot write, by reason; their text means nothing.
    """

    texts: pa.Array
    refused: Mapping[str, Mask] = field(default_factory=dict)


Writer: TypeAlias = Callable[[pa.Array], Literals]
"""The function that writes the values of a column."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The way in which a column is compared with a value.

    ``left`` are the words before the sign of equality, ``literals`` writes the values.
    ``unfit`` writes the source's texts of values that do not fit the column's type; None says that they cannot be compared.
    """

    left: str
    literals: Writer
    unfit: Writer | None


class Dialect(Protocol):
    """A dialect of SQL, as a frozen and picklable value."""

    @property
    def name(self) -> str:
        """The name that the configuration uses: ``mysql``."""
        ...

    @property
    def runs_ddl(self) -> bool:
        """True if statements of the source are run as they are; else they are comments."""
        ...

    @property
    def preamble(self) -> tuple[str, ...]:
        """The statements that bring a session to read all others as they are meant."""
        ...

    def quoted(self, name: str) -> str:
        """Return a name as an identifier, in quotes."""
        ...

    def literals(self, column: SqlColumn, values: pa.Array) -> Literals:
        """Return values of a column as it is given them."""
        ...

    def unfit(self, column: SqlColumn, texts: pa.Array) -> Literals:
        """Return the source's texts of values that do not fit, as the column is given them."""
        ...

    def compared(self, column: SqlColumn, *, whole: bool) -> Comparison | None:
        """Return the way in which a column is compared; None if equal values cannot be found so.

        ``whole`` says that a row is found by all its columns. Then only values that are the same are equal, also in letter case.
        """
        ...

    def put(self, table: str, columns: Sequence[str], key: Sequence[str]) -> tuple[str, str]:
        """Return the words around the values of a row that takes the place of one with its key."""
        ...

    def among_equals(self, table: str, conditions: pa.Array) -> pa.Array:
        """Return the conditions of one row among rows that are equal, with all that follows them."""
        ...

    def statement(self, sql: str) -> tuple[str, ...]:
        """Return the lines of a statement of the source that is no row change, with its end."""
        ...

    def use(self, database: str) -> str | None:
        """Return the line that makes a database the default of the statements behind it.

        It is None where these are comments.
        """
        ...


def owner_of(table: TableId) -> str:
    """Return the name that stands before a table's own: its schema, else its database."""
    return table.schema or table.database


def table_name(dialect: Dialect, table: TableId) -> str:
    """Return a table's name in quotes: ```shopdb`.`orders```."""
    owner = owner_of(table)
    return dialect.quoted(table.table) if not owner else f"{dialect.quoted(owner)}.{dialect.quoted(table.table)}"
