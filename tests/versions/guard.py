"""The guard: lakes that the base commit and another code make from equal captures, and the faults that are found in them.

Rows that become others make a stored lake wrong without a sign, unless ``CODE_VERSION`` becomes another, too: it stands in each
mark, and Dagster shows it as changed code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.versions.captures import ENVIRONMENT, Case
from tests.versions.lakes import Difference, Place, contents, differences, placed, rows_alone, rows_of, written
from tests.versions.made_by import NOTHING, Code, Job, Work, ask, make_lakes

VERSION_FILE = "dts_assets/model/version.py"


@dataclass(frozen=True, slots=True)
class Lakes:
    """The lakes of a case.

    The base makes ``older``, the other code makes ``newer``. The base begins ``continued``, and the other code ends it; of
    a case without open windows there is no such lake.
    """

    name: str
    older: Place
    newer: Place
    continued: Place | None

    @property
    def by_base(self) -> list[Job]:
        """The jobs of the base."""
        begun = [] if self.continued is None else [self.continued.job(*self.continued.begun())]
        return [self.older.job(*self.older.begun(), *self.older.ended()), *begun]

    @property
    def by_equal_version(self) -> list[Job]:
        """The jobs of another code of the same version: nothing is to be made again."""
        ended = [] if self.continued is None else [self.continued.job(ask(), *self.continued.ended())]
        return [self.older.job(ask()), self.newer.job(*self.newer.begun(), *self.newer.ended()), *ended]

    @property
    def by_other_version(self) -> list[Job]:
        """The jobs of a code of another version: the older lake is made again, and one is made from the start."""
        return [self.older.job(*self.older.again()), self.newer.job(*self.newer.whole())]


def lakes_of(name: str, case: Case, folder: Path) -> Lakes:
    """Write the capture of a case and the configurations of its lakes."""
    pieces = written(case, folder / "pieces")
    older, newer = (placed(case, folder / one, pieces) for one in ("older", "newer"))
    return Lakes(name, older, newer, placed(case, folder / "continued", pieces) if case.is_live else None)


@dataclass(frozen=True, slots=True)
class Guarded:
    """The lakes of all cases after both codes have done their jobs, and the code versions of both.

    ``answers`` are those of the other code by the folder of the lake. ``begun`` are the runs that had read each open cell of a
    continued lake when the base left it, by the name of the case.
    """

    commit: str
    versions: tuple[str, str]
    lakes: Mapping[str, Lakes]
    answers: Mapping[Path, tuple[Work, ...]]
    begun: Mapping[str, Mapping[Any, Sequence[str]]]

    @property
    def is_equal_version(self) -> bool:
        """True if both codes have the same version."""
        return self.versions[0] == self.versions[1]

    def faults(self, name: str) -> list[str]:
        """Return the faults of a case as sentences."""
        lakes = self.lakes[name]
        return [*(self._of_equal(lakes) if self.is_equal_version else self._of_other(lakes))]

    def _of_equal(self, lakes: Lakes) -> Iterator[str]:
        newer = contents(lakes.newer)
        yield from changed_rows(differences(contents(lakes.older), newer), self.commit)
        yield from stale(self.answers[lakes.older.folder][0], self.commit)
        if lakes.continued is not None:
            yield from stale(self.answers[lakes.continued.folder][0], self.commit)
            alone, now = refreshes(lakes.newer), refreshes(lakes.continued)
            went_on = {
                cell: runs for cell, runs in self.begun[lakes.name].items() if len(alone.get(cell, ())) > len(runs)
            }
            yield from begun_anew(went_on, now, self.commit)
            yield from continued_rows(differences(contents(lakes.continued), newer), self.commit)

    def _of_other(self, lakes: Lakes) -> Iterator[str]:
        _, stored_again, settled = self.answers[lakes.older.folder]
        missing = cells_of(lakes.newer) - {*stored_again.entries, *stored_again.live}
        yield from not_stale(missing, self.versions)
        if settled != NOTHING:
            yield f"After all windows were made again there is work left: {settled}."
        yield from remade_rows(differences(rows_alone(lakes.older), rows_alone(lakes.newer)), self.commit)


@dataclass(frozen=True, slots=True)
class Begun:
    """The lakes of some cases after the base has done its jobs."""

    commit: str
    version: str
    lakes: Mapping[str, Lakes]
    begun: Mapping[str, Mapping[Any, Sequence[str]]]


def begin(commit: str, base: Code, cases: Mapping[str, Case], folder: Path) -> Begun:
    """Let the base make its lakes of some cases."""
    lakes = {name: lakes_of(name, case, folder / name) for name, case in cases.items()}
    jobs = [job for one in lakes.values() for job in one.by_base]
    version = make_lakes(base, jobs, variables=ENVIRONMENT).code_version
    begun = {name: refreshes(one.continued) for name, one in lakes.items() if one.continued is not None}
    return Begun(commit, version, lakes, begun)


def end(begun: Begun, other: Code, names: Collection[str] = ()) -> Guarded:
    """Let another code do its jobs in the lakes of some cases, of all if none is named."""
    lakes = {name: one for name, one in begun.lakes.items() if not names or name in names}
    version = make_lakes(other, []).code_version
    is_equal = version == begun.version
    jobs = [job for one in lakes.values() for job in (one.by_equal_version if is_equal else one.by_other_version)]
    made = make_lakes(other, jobs, variables=ENVIRONMENT).lakes
    answers = {job.config.parent: one.answers for job, one in zip(jobs, made, strict=True)}
    return Guarded(begun.commit, (begun.version, version), lakes, answers, begun.begun)


def refreshes(place: Place) -> dict[Any, list[str]]:
    """Return the runs that have read each cell of a lake in parts, by cell, in their order."""
    return {
        (row["kafka_partition"], row["window_start"]): [one["run"] for one in row["refreshes"]]
        for row in rows_of(place, "windows")
        if row["refreshes"]
    }


def cells_of(place: Place) -> set[str]:
    """Return the cells of a lake as the answers name them."""
    return {
        f"p{row['kafka_partition']:02}|{row['window_start']:%Y-%m-%d-%H:%M}" for row in rows_of(place, "raw_windows")
    }


def changed_rows(found: Mapping[str, Difference], commit: str) -> list[str]:
    """Return a sentence for each table whose rows became others while the code version did not."""
    return [
        f"The {one.part} of {name} differ from those of commit {commit}, and CODE_VERSION is the same: raise it in "
        f"{VERSION_FILE}. {one.what}"
        for name, one in found.items()
    ]


def stale(found: Work, commit: str) -> list[str]:
    """Return a sentence where a code finds work in a lake that lacks nothing."""
    if found == NOTHING:
        return []
    return [
        f"The lake of commit {commit} lacks nothing, and this code would make parts of it again: {found}. Its marks have "
        f"other inputs now, and CODE_VERSION is the same: raise it in {VERSION_FILE}."
    ]


def begun_anew(before: Mapping[Any, Sequence[str]], after: Mapping[Any, Sequence[str]], commit: str) -> list[str]:
    """Return a sentence for each open cell that was read from its start instead of being continued."""
    return [
        f"The open window {window:%H:%M} of Kafka partition {partition} was begun anew instead of being continued where commit "
        f"{commit} left it. If the state of open windows has another meaning now, raise CODE_VERSION in {VERSION_FILE}."
        for (partition, window), runs in before.items()
        if list(after.get((partition, window), ()))[: len(runs)] != list(runs)
    ]


def continued_rows(found: Mapping[str, Difference], commit: str) -> list[str]:
    """Return a sentence for each table that is another where this code continued a lake than where it made all of it."""
    return [
        f"The {one.part} of {name} in a lake that commit {commit} began and this code continued differ from those of a lake "
        f"that this code made alone, and CODE_VERSION is the same: raise it in {VERSION_FILE}. {one.what}"
        for name, one in found.items()
    ]


def not_stale(missing: set[str], versions: tuple[str, str]) -> list[str]:
    """Return a sentence where entries stay as they are although their messages were read again by another version."""
    if not missing:
        return []
    return [
        f"CODE_VERSION is {versions[1]} instead of {versions[0]}, and these entries are not stale after their messages were read "
        f"again: {', '.join(sorted(missing))}."
    ]


def remade_rows(found: Mapping[str, Difference], commit: str) -> list[str]:
    """Return a sentence for each table of an older lake that is another, made again, than in a new lake."""
    return [
        f"The {one.part} of {name} in the lake of commit {commit}, made again by this code, differ from those of a new lake. "
        f"{one.what}"
        for name, one in found.items()
    ]
