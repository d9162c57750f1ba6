"""The root of all errors that are meant for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(eq=False)
class DtsAssetsError(Exception):
    """An error whose ``str()`` is the whole sentence for a person."""

    exit_code: ClassVar[int] = 1
    """The code that a command ends with."""

    retriable: ClassVar[bool] = False
    """True if a repetition may succeed although nobody has mended anything."""

    def message(self) -> str:
        """Return what is wrong, where, and what to do."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with ``args``, which lacks what was given by keyword.
        facts = {fact.name: getattr(self, fact.name) for fact in fields(self)}
        return _restored, (type(self), facts)


def _restored(cls: type[DtsAssetsError], facts: Mapping[str, Any]) -> DtsAssetsError:
    return cls(**facts)
