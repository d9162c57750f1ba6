"""The files of a table that no version names and that nobody will commit any more.

A run writes its files into a folder of its own before it commits them, and it may take long. So age alone does not decide about a
file: it stays while its folder gets files, and while a run holds a lease that began before the file was written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar


class Lying(Protocol):
    """A file in the folders of a table."""

    @property
    def place(self) -> str:
        """The path without its scheme."""
        ...

    @property
    def written_at(self) -> datetime:
        """The time when it was written."""
        ...


File = TypeVar("File", bound=Lying)


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """The rule by which a file is left behind.

    It was written before ``before``, and every run that goes on has begun behind it: ``begun`` are the times when the leases
    that are held now were taken.
    """

    before: datetime
    begun: tuple[datetime, ...] = ()

    @property
    def border(self) -> datetime:
        """The instant before which files were written that no run can be about to commit."""
        return min([self.before, *self.begun])


def orphans_among(files: Iterable[File], named: Collection[str], rule: OrphanRule) -> list[File]:
    """Return the files that are left behind: not ``named``, and old with all of their folder."""
    known = named if isinstance(named, set | frozenset) else set(named)
    files, border = list(files), rule.border
    newest: dict[str, datetime] = {}
    for one in files:
        folder = _folder(one.place)
        newest[folder] = max(one.written_at, newest.get(folder, one.written_at))
    return [one for one in files if one.place not in known and _age(one, newest) < border]


def _age(file: Lying, newest: Mapping[str, datetime]) -> datetime:
    """Return when a file's folder got its last file; of metadata each file is by itself.

    All commits of a table write into one folder of metadata, which always has a new file.
    """
    folder = _folder(file.place)
    return file.written_at if folder.endswith("/metadata") else newest[folder]


def _folder(place: str) -> str:
    return place.rpartition("/")[0]
