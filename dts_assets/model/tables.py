"""Source tables: their names, and how a name becomes an asset key, a lake table and a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

_CARRIED = re.compile(r"[^A-Za-z0-9_\-\u0080-\uffff ]")
"""The characters that the catalog, a path or Dagster cannot carry.

Dots are among them: Iceberg lists a dotted namespace as nested.
"""


@lru_cache(maxsize=65536)
def encode_part(part: str) -> str:
    """Return a name part with every character that cannot be carried percent-encoded: ``a%2Eb`` for ``a.b``.

    The code is UTF-8 in upper-case hex, and reversible.
    """
    return _CARRIED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), part)


def decode_part(part: str) -> str:
    """Return the exact name part that :func:`encode_part` encoded."""
    return re.sub(r"(?:%[0-9A-F]{2})+", lambda found: bytes.fromhex(found.group().replace("%", "")).decode(), part)


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A source table by its exact name parts; a part that the source does not have is empty."""

    database: str
    schema: str
    table: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that exist, exact: ``("shopdb", "orders")``."""
        return tuple(part for part in (self.database, self.schema, self.table) if part)

    @property
    def path(self) -> tuple[str, ...]:
        """The parts as they stand in asset keys and lake identifiers, encoded."""
        return tuple(encode_part(part) for part in self.parts)

    def matches(self, pattern: str) -> bool:
        """Return whether a glob per name part, ``shopdb.*``, names this table.

        ``*`` alone names every table. Case counts.
        """
        if pattern == "*":
            return True
        globs = pattern.split(".")
        return len(globs) == len(self.parts) and all(
            fnmatchcase(part, glob) for part, glob in zip(self.parts, globs, strict=True)
        )

    def __str__(self) -> str:
        return ".".join(self.parts)
