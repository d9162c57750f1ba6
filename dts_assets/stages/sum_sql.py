"""The text and the sum of a row as MySQL and MariaDB compute them.

Each function here has a counterpart in ``stages/row_sums.py``; a real server is the judge of both. A type stands here only where
the server's text of every value is the lake's. A value that the lake's type does not hold is NULL on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dts_assets.model.columns import decimal_arguments, quoted
from dts_assets.model.server_tables import ServerColumn
from dts_assets.stages.row_sums import LONG, SummedColumn

_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_WHOLE = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_LAKE_BITS = {"int": 32, "bigint": 64}
_PRINTED = frozenset({"inet4", "inet6", "uuid"})
_MONTHS = (
    "31, 28 + (YEAR({0}) % 4 = 0 AND (YEAR({0}) % 100 <> 0 OR YEAR({0}) % 400 = 0)), "
    "31, 30, 31, 30, 31, 31, 30, 31, 30, 31"
)


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a sum in SQL.

    ``text`` is the expression of its value's text, NULL where the lake has NULL. ``is_free`` says that texts have any
    length. ``narrows`` says that some values of the source do not fit the lake's type.
    """

    column: SummedColumn
    source: ServerColumn
    text: str
    is_free: bool = False
    narrows: bool = False

    @property
    def tagged(self) -> str:
        """The expression of the part that the column makes of a row's text."""
        if not self.is_free:
            return f"IFNULL(CONCAT('{self.column.tag}=', {self.text}, ','), '')"
        long = f"IF(LENGTH({self.text}) > {LONG}, MD5({self.text}), {self.text})"
        return f"IFNULL(CONCAT('{self.column.tag}=', LENGTH({self.text}), ':', {long}), '')"


def sql_column(column: SummedColumn, source: ServerColumn) -> SqlColumn | None:
    """Return a column in SQL; None where its texts are not proven to be the lake's."""
    name, lake, kind = quoted(source.name), column.type, source.type
    if lake in ("int", "bigint", "boolean", "decimal(20,0)") and kind in (*_WHOLE, "year", "bit"):
        return _whole_number(column, source)
    if kind == "decimal":
        return _decimal(column, source)
    if lake == "string" and kind in _TEXTS:
        return SqlColumn(column, source, f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)", is_free=True)
    if lake == "string" and (kind == "time" or kind in _PRINTED):
        return SqlColumn(column, source, f"CAST({name} AS CHAR)", is_free=True)
    if lake == "binary" and kind in _BYTES:
        return SqlColumn(column, source, f"CAST({name} AS BINARY)", is_free=True)
    form = {("date", "date"): "%Y-%m-%d"}.get((lake, kind))
    if (lake, kind) in (("timestamp_ntz", "datetime"), ("timestamp", "timestamp")):
        form = "%Y-%m-%d %H:%i:%s.%f"
    if form is None:
        return None
    exists = f"YEAR({name}) > 0 AND DAYOFMONTH({name}) BETWEEN 1 AND ELT(MONTH({name}), {_MONTHS.format(name)})"
    return SqlColumn(column, source, f"IF({exists}, DATE_FORMAT({name}, '{form}'), NULL)", narrows=True)


def _whole_number(column: SummedColumn, source: ServerColumn) -> SqlColumn | None:
    name, lake = quoted(source.name), column.type
    if source.type in ("year", "bit"):
        least, most = 0, 9999 if source.type == "year" else (1 << (source.precision or 64)) - 1
    else:
        bits = _WHOLE[source.type]
        least, most = (0, (1 << bits) - 1) if source.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if lake == "boolean":
        lowest, highest = 0, 1
    elif lake == "decimal(20,0)":
        lowest, highest = 1 - 10**20, 10**20 - 1
    else:
        lowest, highest = -(1 << _LAKE_BITS[lake] - 1), (1 << _LAKE_BITS[lake] - 1) - 1
    text = f"CAST({name} + 0 AS {'SIGNED' if least < 0 else 'UNSIGNED'})"
    if lowest <= least and most <= highest:
        return SqlColumn(column, source, text)
    limit = f"{name} + 0 BETWEEN {max(least, lowest)} AND {min(most, highest)}"
    return SqlColumn(column, source, f"IF({limit}, {text}, NULL)", narrows=True)


def _decimal(column: SummedColumn, source: ServerColumn) -> SqlColumn | None:
    precision, scale, name = source.precision or 0, source.scale or 0, quoted(source.name)
    # The cast takes the zeros away with which ZEROFILL fills a number up.
    text = f"CAST(CAST({name} AS DECIMAL({precision},{scale})) AS CHAR)"
    if column.type == "string":
        return SqlColumn(column, source, text, is_free=True)
    found = decimal_arguments(column.type)
    if found is None or found[1] != scale or found[0] < precision:
        return None
    return SqlColumn(column, source, text)


def row_hash(columns: Iterable[SqlColumn]) -> str:
    """Return the expression of the first 60 bits of the MD5 over a row's text."""
    parts = [one.tagged for one in sorted(columns, key=lambda one: one.column.tag)]
    return f"CAST(CONV(LEFT(MD5(CONCAT({', '.join(parts) or repr('')})), 15), 16, 10) AS UNSIGNED)"


def misfits(columns: Sequence[SqlColumn]) -> str:
    """Return the expression of the number of a row's values that the lake's types do not hold."""
    found = [f"({quoted(one.source.name)} IS NOT NULL AND {one.text} IS NULL)" for one in columns if one.narrows]
    return " + ".join(found) or "0"


def rows_of(database: str, table: str, condition: str = "") -> str:
    """Return what a FROM names: a table, or its rows under a condition."""
    name = f"{quoted(database)}.{quoted(table)}"
    return f"(SELECT * FROM {name} WHERE {condition}) AS kept" if condition else name


def sum_statement(rows: str, columns: Sequence[SqlColumn]) -> str:
    """Return the statement that adds up some rows, those of :func:`rows_of`.

    It gives the number of rows, their sum, and the number of values that do not fit.
    """
    return f"SELECT COUNT(*), IFNULL(SUM({row_hash(columns)}), 0), IFNULL(SUM({misfits(columns)}), 0) FROM {rows}"


@dataclass(frozen=True, slots=True)
class Buckets:
    """Parts of a table's rows, as a database and the lake tell them alike.

    With ``least`` a part has the keys of a range of ``width`` in the one ``key``, a whole number. Without it a part has the rows
    whose ``key`` columns have a hash with the same rest. In a table without a key these are all columns.
    """

    key: tuple[SqlColumn, ...]
    count: int
    least: int | None = None
    width: int = 1

    @property
    def expression(self) -> str:
        """The number of a row's part in SQL."""
        if self.least is None:
            return f"{row_hash(self.key)} % {self.count}"
        return f"FLOOR(({self.key[0].text} - ({self.least})) / {self.width})"

    def condition(self, numbers: Sequence[int]) -> str:
        """Return the condition of the rows in some parts. An index of the key finds the rows of ranges."""
        if self.least is None:
            return f"{self.expression} IN ({', '.join(map(str, numbers))})"
        starts = [self.least + number * self.width for number in numbers]
        name = quoted(self.key[0].source.name)
        return " OR ".join(f"{name} BETWEEN {start} AND {start + self.width - 1}" for start in starts)


def bucket_statement(rows: str, columns: Sequence[SqlColumn], buckets: Buckets) -> str:
    """Return the statement that gives the numbers of parts with rows, their rows and sums."""
    return f"SELECT {buckets.expression} AS part, COUNT(*), SUM({row_hash(columns)}) FROM {rows} GROUP BY part"


def hashes_statement(rows: str, columns: Sequence[SqlColumn], buckets: Buckets, numbers: Sequence[int]) -> str:
    """Return the statement that gives the hashes of the keys and of the rows in some parts."""
    return f"SELECT {row_hash(buckets.key)}, {row_hash(columns)} FROM {rows} WHERE {buckets.condition(numbers)}"


def rows_statement(
    rows: str, asked: Sequence[str], buckets: Buckets, *, numbers: Sequence[int], keys: Sequence[int]
) -> str:
    """Return the statement that asks for expressions in the rows of some keys.

    They lie in parts with some numbers.
    """
    return (
        f"SELECT {', '.join(asked)} FROM {rows} WHERE ({buckets.condition(numbers)}) "
        f"AND {row_hash(buckets.key)} IN ({', '.join(map(str, keys))})"
    )
