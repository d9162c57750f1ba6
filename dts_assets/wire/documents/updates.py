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
"""The greatest index that MongoDB fills an array up to (``MaxNumberOfArrayElements`` in its source)."""

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
    made: dict[str, Value] = dict(document)
    doubts = [path for path in update.get("$unset", ()) if not _unset(made, path.split("."))]
    doubts += [path for path, value in update.get("$set", {}).items() if not _set(made, path.split("."), value)]
    return Updated(made, tuple(doubts))


def _set(there: Any, names: list[str], value: Value) -> bool:
    """Set a field below a document that was copied; tell whether its path fits."""
    for place, name in enumerate(names):
        last = place == len(names) - 1
        if isinstance(there, dict):
            if last:
                there[name] = value
                return True
            inner = _copied(there.get(name, {}))
            if inner is None:
                return False
            there[name] = inner
        else:
            if not is_index(name):
                return False
            index, fits = int(name), int(name) <= len(there)
            inner = value if last else _copied(there[index] if index < len(there) else {})
            if inner is None and not last:
                return False
            there += [None] * (index + 1 - len(there))
            there[index] = inner
            if last or not fits:
                return last and fits
        there = inner
    return False


def _unset(there: Any, names: list[str]) -> bool:
    """Remove a field below a document that was copied; tell whether its path fits.

    An element of an array becomes null.
    """
    for place, name in enumerate(names):
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
        inner = _copied(there[at])
        if inner is None:
            return False
        there[at] = inner
        there = inner
    return False


def is_index(name: str) -> bool:
    """Tell whether a name is the number of an element: ``0`` and ``17``, and not ``007``."""
    return name.isascii() and name.isdigit() and len(name) <= 7 and str(int(name)) == name and int(name) <= _MOST_FILLED


def _copied(value: Value) -> Any:
    """Return a copy of a document or an array.

    No path leads through any other value, for which there is None.
    """
    if isinstance(value, list):
        return list(value)
    return dict(value) if is_document(value) else None
