"""Files of mysqldump and mariadb-dump: tables, their rows, and the place in the binlog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dts_assets.errors.databases import CopyError
from dts_assets.model.tables import TableId

_DATABASE = re.compile(rb"-- (?:Current Database: `(?P<named>(?:[^`]|``)*)`|Host: .*?Database: (?P<only>\S+))")
_PLACE = re.compile(rb"(?:MASTER|SOURCE)_LOG_FILE='(?P<file>[^']+)', *(?:MASTER|SOURCE)_LOG_POS=(?P<position>\d+)")
_CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?`(?P<table>(?:[^`]|``)*)`")
_INSERT = re.compile(
    rb"(?:INSERT|REPLACE)(?: IGNORE)?(?: INTO)? `(?P<table>(?:[^`]|``)*)`(?P<names>[^(]*\([^)]*\))? ?VALUES\s*"
)
_NAME = re.compile(rb"`((?:[^`]|``)*)`")
_CELL = re.compile(
    rb"\s*(?:(?P<null>NULL)|b'(?P<bits>[01]*)'|(?:_binary )?'(?P<text>(?:[^'\\]|\\.|'')*)'|0x(?P<hex>[0-9A-Fa-f]*)"
    rb"|(?P<bare>[^,()'\s]+))\s*(?P<end>[,)])",
    re.S,
)
"""A value in a list of values, with the sign behind it."""

_BETWEEN = re.compile(rb",?\s*")
_ESCAPE = re.compile(rb"\\(.)|''", re.S)
_ESCAPED = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a", b"b": b"\b"}


@dataclass(slots=True)
class DumpedTable:
    """A table of a dump: its definition, and where its rows begin in the file, statement by statement.

    ``place`` is the name of the binlog file and the position in it that the dump is of, None where it tells none.
    """

    table: TableId
    definition: str
    place: tuple[str, int] | None
    inserts: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)


def tables_of_dump(file: Path) -> Iterator[DumpedTable]:
    """Yield the tables of a dump, from one pass over its lines that reads no value.

    Raises:
        CopyError: The file cannot be read, or does not tell the database of a table.
    """
    database, place, found = "", None, dict[TableId, DumpedTable]()
    creating: list[bytes] = []
    try:
        with file.open("rb") as lines:
            offset = 0
            for line in lines:
                if creating or _CREATE.match(line):
                    creating.append(line)
                    if line.rstrip().endswith(b";"):
                        table = _table(database, creating[0], file)
                        text = b"".join(creating).decode("utf-8", "replace")
                        found[table] = DumpedTable(table, text, place)
                        creating = []
                elif (told := _DATABASE.match(line)) is not None:
                    database = _name(told["named"] if told["named"] is not None else told["only"])
                elif place is None and (at := _PLACE.search(line)) is not None:
                    place = at["file"].decode(), int(at["position"])
                elif (insert := _INSERT.match(line)) is not None:
                    names = tuple(map(_name, _NAME.findall(insert["names"] or b"")))
                    table = TableId(database, "", _name(insert["table"]))
                    if table in found:
                        found[table].inserts.append((offset, names))
                offset += len(line)
    except OSError as error:
        raise CopyError(str(file.name), f"the dump cannot be read ({error.strerror})", "mend its place") from None
    yield from found.values()


def _table(database: str, line: bytes, file: Path) -> TableId:
    told = _CREATE.match(line)
    assert told is not None, "the caller has matched the line"
    if not database:
        raise CopyError(_name(told["table"]), f"{file.name} does not tell its database", "dump it with --databases")
    return TableId(database, "", _name(told["table"]))


def rows_of_dump(file: Path, dumped: DumpedTable, names: tuple[str, ...]) -> Iterator[dict[str, list[bytes | None]]]:
    """Yield the rows of each statement of a table by column.

    ``names`` are its columns, where a statement lists none.

    Raises:
        CopyError: A statement cannot be read; its line is told.
    """
    with file.open("rb") as lines:
        for offset, own in dumped.inserts:
            lines.seek(offset)
            statement = _statement(lines)
            told = _INSERT.match(statement)
            assert told is not None, "the first pass has matched the line"
            yield _columns(statement, told.end(), own or names, dumped.table, offset)


def _statement(lines: IO[bytes]) -> bytes:
    """Return a statement of one or several lines.

    An end of a line within a text is written as two characters.
    """
    found = []
    for line in lines:
        found.append(line)
        if line.rstrip(b"\r\n").endswith(b";"):
            break
    return b"".join(found)


def _columns(
    line: bytes, start: int, names: tuple[str, ...], table: TableId, offset: int
) -> dict[str, list[bytes | None]]:
    cells: list[bytes | None] = []
    at, width = start, len(names)
    while at < len(line) and line[at : at + 1] == b"(":
        at += 1
        while True:
            found = _CELL.match(line, at)
            if found is None:
                raise CopyError(
                    str(table), f"its rows cannot be read at byte {offset + at} of the dump", "dump it again"
                )
            cells.append(_value(found))
            at = found.end()
            if found["end"] == b")":
                break
        if len(cells) % width:
            raise CopyError(str(table), f"a row at byte {offset + at} of the dump has other columns", "dump it again")
        at = _BETWEEN.match(line, at).end()  # type: ignore[union-attr]
    if line[at : at + 1] != b";":
        raise CopyError(str(table), f"its rows end at byte {offset + at} of the dump, in the middle", "dump it again")
    return {name: cells[place::width] for place, name in enumerate(names)}


def _value(cell: re.Match[bytes]) -> bytes | None:
    if cell["text"] is not None:
        text = cell["text"]
        return _ESCAPE.sub(_unescaped, text) if b"\\" in text or b"''" in text else text
    if cell["hex"] is not None:
        return bytes.fromhex(cell["hex"].decode())
    if (bits := cell["bits"]) is not None:
        return int(bits or b"0", 2).to_bytes((len(bits) + 7) // 8 or 1)
    return cell["bare"]


def _unescaped(found: re.Match[bytes]) -> bytes:
    sign: bytes | None = found[1]
    return b"'" if sign is None else _ESCAPED.get(sign, sign)


def _name(text: bytes) -> str:
    return text.replace(b"``", b"`").decode("utf-8", "replace")
