"""Source tables: their names, and how a name becomes an asset key, a lake table and a folder."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate, takewhile

EMPTY = "%"
"""The part that stands for an empty name.

No encoded name is equal to it: there two digits follow each percent sign.
"""

FOLDER_BYTES = 255
"""The longest name of a folder, on every file system in use."""

_CARRIED = re.compile(r"[^A-Za-z0-9_\-\u0080-\ud7ff\ue000-\uffff ]")
"""The characters that the catalog, a path or Dagster cannot carry.

Dots are among them: Iceberg lists a dotted namespace as nested. Halves of surrogate pairs are no text in UTF-8.
"""

_NOT_IN_FOLDERS = re.compile(r"[^A-Za-z0-9_\-]")

_DIGEST = 32
"""The hex digits of a SHA-256 that tell long names apart. Nobody can make two names with equal ones."""


@lru_cache(maxsize=65536)
def encode_part(part: str) -> str:
    """Return a name part, percent-encoded where it cannot be carried: ``a%2Eb`` for ``a.b``.

    The code is UTF-8 in upper-case hex, and reversible.
    """
    return _CARRIED.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode(errors="surrogatepass")), part
    )


def folder_name(part: str) -> str:
    """Return the folder of a part of a path, in ASCII: ``~8ba2~~5355~`` for ``订单``.

    Characters beyond letters, digits, ``_`` and ``-`` are ``~``, their number in hex, and ``~``: a percent sign in a location
    means one thing to a URI and another to a path.
    """
    return _NOT_IN_FOLDERS.sub(lambda found: f"~{ord(found.group()):x}~", part)


@lru_cache(maxsize=65536)
def path_part(name: str) -> str:
    """Return the part of a path that stands for a name; two names never have the same part.

    It is the encoded name, and ``%`` for an empty one. A name whose folder would be longer than ``FOLDER_BYTES`` becomes as much
    of its encoding as there is room for, ``~``, and a digest of the name.
    """
    if not name:
        return EMPTY
    encoded = encode_part(name)
    if len(folder_name(encoded)) <= FOLDER_BYTES:
        return encoded
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    end = f"~{digest}"  # no encoded name has this sign
    room = FOLDER_BYTES - len(folder_name(end))
    prefixes = accumulate(map(encode_part, name))
    fitting = takewhile(lambda prefix: len(folder_name(prefix)) <= room, prefixes)
    return max(fitting, key=len, default="") + end


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A source table by its exact name parts; a part that the source does not have is empty.

    ``source_set`` is the set of a TDSQL that has these rows of the table, where it is told. It is no part of the name.
    """

    database: str
    schema: str
    table: str
    source_set: str = field(default="", repr=False, metadata={"stored": False})

    @property
    def names(self) -> tuple[str, str, str]:
        """The exact name parts."""
        return self.database, self.schema, self.table

    @property
    def of_all_sets(self) -> TableId:
        """The table whatever the set."""
        return replace(self, source_set="") if self.source_set else self

    def of_set(self, source_set: str) -> TableId:
        """Return the table in a set of a TDSQL."""
        return self if self.source_set == source_set else replace(self, source_set=source_set)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts by which people name the table: ``("shopdb", "orders")``, and ``%`` for an empty one.

        A table with a schema and without a database has two, as in Oracle: ``("SCOTT", "EMP")``.
        """
        table = self.table or EMPTY
        if self.database and self.schema:
            return self.database, self.schema, table
        return self.schema or self.database or EMPTY, table

    @property
    def path(self) -> tuple[str, ...]:
        """The parts as they stand in asset keys and lake identifiers; two tables never have the same path.

        They are database and table, with the schema between them if there is one.
        """
        parts = (self.database, self.schema, self.table) if self.schema else (self.database, self.table)
        return tuple(map(path_part, parts))

    def matches(self, pattern: str, *, ignores_case: bool = False) -> bool:
        """Return whether a glob per name part, ``shopdb.*``, names this table.

        ``*`` alone names every table, ``%`` an empty part. Case counts unless it is ignored.
        """
        if pattern == "*":
            return True
        globs, parts = pattern.split("."), self.parts
        if ignores_case:
            globs, parts = [*map(str.lower, globs)], tuple(map(str.lower, parts))
        return len(globs) == len(parts) and all(
            fnmatchcase(part, glob) for part, glob in zip(parts, globs, strict=True)
        )

    @property
    def exact_name(self) -> str:
        """The name in which dots stand between parts alone: ``a%2Eb.c``."""
        return ".".join(self.path)

    def is_called(self, name: str) -> bool:
        """Return whether a person may mean this table by a name; several tables may share the shorter one."""
        return name in (str(self), self.exact_name)

    def __str__(self) -> str:
        return ".".join(self.parts)
