"""Tables of MySQL and MariaDB as such a server describes them."""

from __future__ import annotations

from dataclasses import dataclass

from dts_assets.model.columns import ColumnShape


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """A column as ``information_schema`` tells it: ``("seen", "timestamp", "timestamp(3)")``.

    ``precision``, ``scale`` and ``digits`` (of a fraction of a second) are None where the type has none.
    """

    name: str
    type: str
    declared: str
    precision: int | None = None
    scale: int | None = None
    digits: int | None = None
    is_key: bool = False

    @property
    def unsigned(self) -> bool:
        """True if the numbers of the column have no sign."""
        return "unsigned" in self.declared or "zerofill" in self.declared

    @property
    def shape(self) -> ColumnShape:
        """The column as an event would describe it."""
        return ColumnShape(self.name, self.declared, self.is_key)


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table of a server: its storage engine and its columns, in their order."""

    engine: str
    columns: tuple[ServerColumn, ...]
