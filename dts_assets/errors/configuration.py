"""Mistakes in a configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dts_assets.errors.base import DtsAssetsError


@dataclass(frozen=True, slots=True)
class ConfigMistake:
    """One mistake in a configuration file: its place, its description and the way to mend it.

    ``line`` counts from 1 and is None where the file as a whole is meant; ``path`` is dotted, ``lake.warehouse``, and empty for
    the whole file.
    """

    file: str
    line: int | None
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        where = f" {self.path}:" if self.path else ""
        return f"{place}:{where} {self.message}; {self.fix}"


@dataclass(eq=False)
class ConfigErrors(DtsAssetsError):
    """Every mistake of a configuration file, in the order of its lines."""

    exit_code: ClassVar[int] = 2

    mistakes: Sequence[ConfigMistake]

    def message(self) -> str:
        """Return one line per mistake."""
        return "\n".join(str(mistake) for mistake in self.mistakes)
