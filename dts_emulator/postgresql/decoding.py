"""The text of ``test_decoding``, the plugin of logical decoding that comes with PostgreSQL (contrib/test_decoding).

``table public.notes: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 body[text]:'it''s' big[text]:unchanged-toast-datum``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from dts_emulator.errors import DecodingFailed
from dts_emulator.postgresql.changes import Cell, RowChange, Transaction

_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s".:\[]+)')
_COMMIT = re.compile(r"COMMIT (\d+) \(at (.+)\)")
_BARE = re.compile(r"[^\s']+")
_QUOTED = re.compile(r"B?'((?:[^']|'')*)'")
_UNCHANGED = "unchanged-toast-datum"
_NO_TUPLE = "(no-tuple-data)"


def transactions_of(lines: Iterable[tuple[int, str]]) -> Iterator[Transaction]:
    """Yield the transactions that lines of the plugin tell, with ``include-timestamp``; each line comes with its LSN.

    Raises:
        DecodingFailed: A line is none of the plugin.
    """
    changes: list[RowChange] = []
    first = 0
    for lsn, line in lines:
        if line.startswith("BEGIN"):
            changes, first = [], lsn
        elif found := _COMMIT.fullmatch(line):
            committed = datetime.fromisoformat(found.group(2))
            yield Transaction(int(found.group(1)), committed, tuple(changes), first, lsn)
        elif (change := _Line(line).change()) is not None:
            changes.append(replace(change, lsn=lsn))


class _Line:
    """A line on its way through the reader."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def change(self) -> RowChange | None:
        """Return the change of a row; None for a TRUNCATE, of which DRS sends nothing."""
        if self._text.endswith((": TRUNCATE: (no-flags)", ": TRUNCATE: restart_seqs", ": TRUNCATE: cascade")):
            return None
        self._take("table ")
        schema = self._name()
        self._take(".")
        table = self._name()
        self._take(": ")
        operation = next((one for one in ("INSERT", "UPDATE", "DELETE") if self._takes(f"{one}: ")), None)
        if operation is None:
            raise self._failed()
        if self._takes(_NO_TUPLE):
            return RowChange(schema, table, operation, None, None)
        if operation == "DELETE":
            return RowChange(schema, table, operation, self._cells(), None)
        old = self._cells() if self._takes("old-key: ") else None
        if old is not None:
            self._take("new-tuple: ")
        return RowChange(schema, table, operation, old, self._cells())

    def _cells(self) -> tuple[Cell, ...]:
        found = []
        while self._at < len(self._text) and not self._text.startswith("new-tuple: ", self._at):
            name = self._name()
            self._take("[")
            end = self._text.find("]:", self._at)
            if end < 0:
                raise self._failed()
            kind, self._at = self._text[self._at : end], end + 2
            found.append(Cell(name, kind, *self._value()))
            self._takes(" ")
        return tuple(found)

    def _value(self) -> tuple[str | None, bool]:
        if quoted := _QUOTED.match(self._text, self._at):
            self._at = quoted.end()
            return quoted.group(1).replace("''", "'"), False
        bare = _BARE.match(self._text, self._at)
        if bare is None:
            raise self._failed()
        self._at = bare.end()
        if bare.group() == _UNCHANGED:
            return None, True
        return None if bare.group() == "null" else bare.group(), False

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self._failed()
        self._at = found.end()
        quoted, bare = found.groups()
        return bare if quoted is None else str(quoted).replace('""', '"')

    def _takes(self, word: str) -> bool:
        there = self._text.startswith(word, self._at)
        self._at += len(word) if there else 0
        return there

    def _take(self, word: str) -> None:
        if not self._takes(word):
            raise self._failed()

    def _failed(self) -> DecodingFailed:
        return DecodingFailed(self._text, self._at)
