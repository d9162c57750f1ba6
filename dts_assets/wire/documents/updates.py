"""Updates of documents: ``{"$set": {...}, "$unset": {...}}``, as change streams of MongoDB tell them.

Paths are resolved against the document that stands: ``a.0`` is an element where ``a`` is an array, and a field called ``0`` where
``a`` is a document. Fields that an update adds stand behind the others, in the order of the update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dts_assets.wire.documents.shell_syntax import Unreadable, Value, is_document

_MOST_FILLED = 1_500_000
"""The greatest index that MongoDB fills an array up to (``MaxNumberOfArrayElements`` in its source).

An update fills up no more elements in all: a document of 16 megabytes has no room for them.
"""

_MOST_NESTED = 200
"""The names of a path that are followed. MongoDB's documents have 100 levels."""

_OPERATORS = frozenset({"$set", "$unset"})


@dataclass(frozen=True, slots=True)
class Updated:
    """A document behind an update.

    ``doubts`` are the paths that did not fit the document, which the source's own document must have fitted: the update was made
    of another document than this one.
    """

    document: dict[str, Value]
    doubts: tuple[str, ...] = ()


def checked_update(update: Mapping[str, Value]) -> None:
    """Look whether an update has fields to set and to remove alone.

    Raises:
        Unreadable: It has another operator, or none.
    """
    if not update or not update.keys() <= _OPERATORS or not all(map(is_document, update.values())):
        raise Unreadable("an update is more than $set and $unset")


def updated(document: Mapping[str, Value], update: Mapping[str, Value]) -> Updated:
    """Return a document behind an update; the given document stays as it is.

    Fields are removed before others are set, as MongoDB tells both of one state: no path is in both.
    """
    work = _Work(dict(document))
    doubts = [path for path in update.get("$unset", ()) if not work.unset(path.split("."))]
    doubts += [path for path, value in update.get("$set", {}).items() if not work.set(path.split("."), value)]
    return Updated(work.made, tuple(doubts))


class _Work:
    """A document while an update is applied: what paths lead through is copied once, at its first change.

    ``copies`` has the identities of these copies, ``room`` the elements that arrays may still be filled up with.
    """

    def __init__(self, document: dict[str, Value]) -> None:
        self.made = document
        self.copies = {id(document)}
        self.room = _MOST_FILLED

    def set(self, names: list[str], value: Value) -> bool:
        """Set a field; tell whether its path fits."""
        there: Any = self.made
        for place, name in enumerate(names[:_MOST_NESTED]):
            last = place == len(names) - 1
            if isinstance(there, dict):
                if last:
                    there[name] = value
                    return True
                inner = self._own(there.get(name, {}))
                if inner is None:
                    return False
                there[name] = inner
            else:
                if not is_index(name):
                    return False
                index, fits = int(name), int(name) <= len(there)
                inner = value if last else self._own(there[index] if index < len(there) else {})
                if (inner is None and not last) or not self._fill(there, index + 1):
                    return False
                there[index] = inner
                if last or not fits:
                    return last and fits
            there = inner
        return False

    def unset(self, names: list[str]) -> bool:
        """Remove a field; tell whether its path fits. An element of an array becomes null."""
        there: Any = self.made
        for place, name in enumerate(names[:_MOST_NESTED]):
            last = place == len(names) - 1
            if isinstance(there, dict):
                if name not in there:
                    return False
                if last:
                    del there[name]
                    return True
            elif not is_index(name) or int(name) >= len(there):
                return False
            elif last:
                there[int(name)] = None
                return True
            at: Any = name if isinstance(there, dict) else int(name)
            inner = self._own(there[at])
            if inner is None:
                return False
            there[at] = inner
            there = inner
        return False

    def _fill(self, array: list[Value], size: int) -> bool:
        """Fill an array up with null; tell whether a document has room for it."""
        more = max(size - len(array), 0)
        self.room -= more
        if self.room < 0:
            return False
        array += [None] * more
        return True

    def _own(self, value: Value) -> Any:
        """Return a document or an array that may be changed.

        No path leads through any other value, for which there is None.
        """
        if id(value) in self.copies:
            return value
        found = list(value) if isinstance(value, list) else dict(value) if is_document(value) else None
        self.copies.add(id(found))
        return found


def is_index(name: str) -> bool:
    """Tell whether a name is the number of an element: ``0`` and ``17``, and not ``007``."""
    return name.isascii() and name.isdigit() and len(name) <= 7 and str(int(name)) == name and int(name) <= _MOST_FILLED
