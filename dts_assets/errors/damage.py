"""The errors of lake files that are damaged or missing, and what brings their content back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from dts_assets.errors import LakeError

_LAYERS = ("changelog", "snapshot", "history", "sql")
_NAMED = (*_LAYERS, "copies")
"""The words before the name of a table in asset keys. Copies are of no layer, and nothing makes them again."""

_FOLDERS = ("data", "metadata")
_SCHEME = re.compile(r"^(file:/*(?=/)|[a-z0-9]+://)")
_METADATA = (".avro", ".json", ".json.gz")
_TABLES: dict[str, tuple[str, ...] | None] = {}
"""The asset keys of tables by their folders.

None stands where a folder is of several tables.
"""

_NOTHING = "Nothing restores it but a copy of the lake; or use another subscription name, and materialize again from the source"
_ENTERED = {
    "raw_envelopes": "reads its messages again as long as the topic has them",
    "entries": "makes them again from raw_envelopes",
}


def remember_folders(key: Sequence[str], folders: Iterable[str]) -> None:
    """Remember the folders of a table, whose files are known by them.

    A catalog that is a server places tables as it likes: ``shop.snapshot.shopdb/orders``, or a folder named by a number.
    """
    for folder in folders:
        place = _SCHEME.sub("", folder).rstrip("/")
        if _TABLES.setdefault(place, tuple(key)) != tuple(key):
            _TABLES[place] = None


@dataclass(frozen=True, slots=True)
class FileOwner:
    """The table that a file of the lake belongs to, as its folder or path tells.

    ``layer`` is empty for tables that belong to no source table, whose ``table`` is ``entries``, for example. ``is_rows`` says
    that the file has rows, and no metadata.
    """

    subscription: str = ""
    layer: str = ""
    table: str = ""
    is_rows: bool = False

    @classmethod
    def of(cls, path: str) -> FileOwner:
        """Return the owner of a file: ``.../shop/snapshot/shopdb/orders/data/...`` is of the snapshot of shopdb.orders."""
        *parts, name = _SCHEME.sub("", path).split("/")
        known = (_TABLES.get("/".join(parts[:length])) for length in range(len(parts), 0, -1))
        if key := next(filter(None, known), None):
            return cls._of_key(key, is_rows=not name.endswith(_METADATA))
        folder = next((number for number in reversed(range(len(parts))) if parts[number] in _FOLDERS), None)
        if folder is None:
            return cls()
        location, is_rows = parts[:folder], parts[folder] == "data"
        for length in (4, 5):  # a subscription, a layer, a database and a table, or a schema between them
            if len(location) >= length and location[1 - length] in _NAMED:
                return cls._of_key(location[-length:], is_rows=is_rows)
        return cls._of_key(location[-2:], is_rows=is_rows)

    @classmethod
    def _of_key(cls, key: Sequence[str], *, is_rows: bool) -> FileOwner:
        if len(key) > 2 and key[1] in _NAMED:
            # A dot in a part stays written as %2E: with others the name could be of two tables.
            parts = (part if "%2E" in part.upper() else unquote(part) for part in key[2:] if part != "%")
            return cls(key[0], key[1] if key[1] in _LAYERS else "", ".".join(parts), is_rows)
        return cls(key[0] if len(key) > 1 else "", "", key[-1] if key else "", is_rows)

    @property
    def is_of_one_table(self) -> bool:
        """True if one source table alone cannot be made without the file."""
        return bool(self.layer)

    @property
    def way_out(self) -> str:
        """The command that restores the file's content, as a clause; or that nothing does."""
        named = f"{shlex.quote(self.table)} --subscription {shlex.quote(self.subscription)}"
        if self.layer and not self.is_rows:
            return (
                f"`dts-assets tables remove {named}`, then `dts-assets tables add {named}` and `dts-assets run` make "
                f"the table anew from stored entries"
            )
        if self.layer:
            source = " --from entries" if self.layer == "changelog" else ""
            return (
                f"`dts-assets tables rebuild {named}{source}` makes its rows anew; where the table is paused, "
                f"`dts-assets tables resume {named}` comes before it"
            )
        if self.is_rows and self.table in _ENTERED:
            return (
                f"To materialize {self.subscription}/{self.table} of its window again {_ENTERED[self.table]}; "
                f"`dts-assets verify files {self.subscription}` names the partition"
            )
        return _NOTHING


@dataclass(eq=False)
class DamagedFileError(LakeError):
    """A file of the lake that cannot be read. ``what`` is a clause: "it is empty"."""

    path: str
    what: str

    @property
    def owner(self) -> FileOwner:
        """The table that the file belongs to."""
        return FileOwner.of(self.path)

    def message(self) -> str:
        """Return the file, what is wrong with it, and what restores it."""
        return f"The file {self.path} of the lake cannot be used: {self.what}. {self.owner.way_out}."


@dataclass(eq=False)
class MissingFileError(DamagedFileError, FileNotFoundError):
    """A file of the lake that is not there although a table names it."""

    what: str = "it is missing"


@dataclass(eq=False)
class DamagedCatalogError(LakeError):
    """A SQLite catalog whose file is damaged or lost. ``what`` is a clause: "SQLite cannot read it"."""

    path: str
    what: str = "SQLite cannot read it"

    def message(self) -> str:
        """Return the file, what is wrong, and that nothing but a copy restores it."""
        return (
            f"The catalog {self.path} of the lake is damaged: {self.what}. Nothing in dts-assets restores it: put a copy of the "
            f"file in its place, or what SQLite recovers of it (sqlite3 {self.path} .recover). Without one, name another folder "
            f"under lake.warehouse and materialize again from the source."
        )
