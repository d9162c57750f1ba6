"""The search for plain values: a table of persons under rules on columns, whose values all have a mark, in every random world.

Its mark may stand in the layers of a lake that hold messages and statements as they were sent (docs/rules.md), and nowhere else:
in no other file of the lake, of any version that is still there, in no line that a run prints, and in no file of the registry.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import fastavro
import pyarrow.parquet as pq

from dts_assets.model.lake_layers import LAKE_LAYERS, Values
from tests.flows.source_tables import TEXT, Field, Kind, Table

PERSONS: Final = "persons"
"""The name of the table, also in a world whose other names nobody expects."""

MARK: Final = "Zr7qPlainMark4x"
FIRST_KEY: Final = 7_418_529_630_000
"""Keys of persons begin with these digits, the last three of which count."""


def person_key(number: int, first: int = FIRST_KEY) -> str:
    """A key of a person."""
    return str(first + number)


MARKS: Final = (MARK, str(FIRST_KEY)[:10])

MOVED_MARK: Final = "Xk9vMovedMark2w"
MOVED_KEY: Final = 8_529_630_741_000
MOVED_MARKS: Final = (MOVED_MARK, str(MOVED_KEY)[:10])
"""The marks of rows that were written where no rule was, and that statements bring under one."""

DEFAULTED: Final = "begun_"
"""How columns begin that have a mark as their default."""

_KEY = "a key that nobody guesses"
RULES: Final[dict[str, Any]] = {
    f"bank.{PERSONS}.id": {"hash": {"key": _KEY}},
    f"bank.{PERSONS}.email": {"hash": {"key": _KEY}},
    f"bank.{PERSONS}.phone": {"mask": "***"},
    f"bank.{PERSONS}.passport": "drop",
    f"bank.{PERSONS}.note": {"tokenize": {"key": _KEY, "pattern": f"(?:{MARK}|{MOVED_MARK})[0-9]*"}},
    f"bank.{PERSONS}.{DEFAULTED}*": {"hash": {"key": _KEY}},
}

_LAYERS_AS_SENT = frozenset(one.name for one in LAKE_LAYERS if one.values in (Values.SENT, Values.STATEMENTS))


def _marked(random: Random) -> str:
    return random.choice(("{}", 'he said "{}"', "铁观音\\ {}", "line\n{}\tbreak")).format(
        f"{MARK}{random.randrange(99)}"
    )


PERSON_KIND: Final = Kind(TEXT.original_type, TEXT.send, _marked)


def persons() -> Table:
    """The table: a key and columns of text under each kind of rule.

    The key is text, too: a number could not become a hash in place where a statement brings it under the rule.
    """
    names = ("email", "phone", "passport", "note")
    return Table(PERSONS, [Field("id", TEXT, True), *(Field(name, PERSON_KIND) for name in names)])


def forms(marks: Iterable[str] = MARKS) -> dict[bytes, str]:
    """The bytes of marks in each form that a file may give them, with the name of the form."""
    found: dict[bytes, str] = {}
    for mark in marks:
        plain = mark.encode()
        found[plain] = "UTF-8"
        found[mark.encode("utf-16-le")] = found[mark.encode("utf-16-be")] = "UTF-16"
        found["".join(f"\\u{ord(sign):04x}" for sign in mark).encode()] = "JSON"
        found[plain.hex().encode()] = found[plain.hex().upper().encode()] = "hexadecimal"
        for before in range(
            3
        ):  # where the mark begins within a group of three bytes, and without what neighbours decide
            text = base64.b64encode(b"\0" * before + plain)
            found[text[4 if before else 0 : len(text) - 4]] = "base64"
    return found


def plain_places(
    folders: Iterable[Path],
    lines: Iterable[str],
    *,
    beside: frozenset[str] = _LAYERS_AS_SENT,
    marks: Iterable[str] = MARKS,
) -> list[str]:
    """The files below some folders, and the lines, in which a mark stands; layers ``beside`` are left out."""
    wanted = forms(marks)

    def forms_in(content: bytes) -> list[str]:
        return sorted({name for form, name in wanted.items() if form in content})

    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and beside.isdisjoint(path.relative_to(folder).parts):
                here = sorted({name for content in _contents(path) for name in forms_in(content)})
                found += [f"{path.relative_to(folder)} ({', '.join(here)})"] if here else []
    return found + [f"a line ({', '.join(here)})" for line in lines if (here := forms_in(line.encode()))]


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they are decompressed."""
    try:
        yield path.read_bytes()
        if path.suffix == ".parquet":
            for batch in pq.ParquetFile(path).iter_batches():
                yield _as_text(batch.to_pylist())
        elif path.suffix == ".avro":
            with path.open("rb") as file, suppress(ValueError, EOFError):  # a run that was killed left a part of it
                yield _as_text(list(fastavro.reader(file)))
    except FileNotFoundError:  # it has expired meanwhile
        return


def _as_text(rows: object) -> bytes:
    """Values as JSON, with each text and its bytes as they are."""
    return json.dumps(
        rows, ensure_ascii=False, default=lambda one: one.decode("latin-1") if isinstance(one, bytes) else str(one)
    ).encode()
