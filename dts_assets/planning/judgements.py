"""The judgement of a partition from its marks and counts.

The checks in Dagster, the command ``run`` with its exit code, and ``inspect`` all ask here, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dts_assets.model.delivery import MOST_NAMED
from dts_assets.model.ledger_rows import Cut, IngestWindow, MissingTable, WindowTable
from dts_assets.model.problems import Completeness, Problem, ProblemCode
from dts_assets.model.spans import partition_key
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.topic_marks import row_inputs

AMBIGUOUS_CHANGES = "changes may mean several rows of a table without a key: see quarantine, stage snapshot"
"""The problem of changes that snapshots did not apply; their number stands before it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a partition: of a cell of entries, or of a window of tables.

    ``still_open`` says that the window has not closed, so that all of it holds for now. ``unbalanced`` names the equations that
    do not hold. ``paused`` are the tables that the window lacks, because they stood still when it was made.
    """

    partition: str
    level: Completeness
    problems: tuple[Problem, ...]
    still_open: bool
    unbalanced: tuple[str, ...] = ()
    paused: tuple[MissingTable, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing is known to be missing."""
        return self.level is not Completeness.INCOMPLETE

    @property
    def balanced(self) -> bool:
        """True if everything is accounted for."""
        return not self.unbalanced

    @property
    def level_text(self) -> str:
        """The level in words, ``contiguous so far`` while the window is open."""
        return level_text(self.level, still_open=self.still_open)

    @property
    def sentence(self) -> str:
        """The reasons why the partition fails a check; empty if it passes all."""
        codes = ", ".join(problem.code.value for problem in self.problems)
        found = [] if self.complete else [f"{self.level_text} ({codes})"]
        found += [f"unbalanced ({', '.join(self.unbalanced[:MOST_NAMED])})"] if self.unbalanced else []
        found += [f"without {_named(self.paused)}, which stood still"] if self.paused else []
        return " and ".join(found)


def level_text(level: Completeness, *, still_open: bool) -> str:
    """Return a level in words, ``contiguous so far`` while the window is open."""
    return f"{level.value} so far" if still_open else level.value


def judge_cell(row: IngestWindow, *, quarantine_rows: int) -> Judgement:
    """Return the judgement of a Kafka partition and window of entries.

    ``quarantine_rows`` is the number of rows that its ingest has in ``quarantine``: each is counted exactly once.
    """
    wrong = [*row.counts.unbalanced, *_quarantine(row.counts.quarantine_rows, quarantine_rows)]
    return Judgement(str(row.cell), row.completeness, row.problems, row.closed_by is ClosedBy.OPEN, tuple(wrong))


def judge_window(row: Cut, *, unbalanced: Sequence[str] = ()) -> Judgement:
    """Return the judgement of a window of tables; ``unbalanced`` is what :func:`unbalanced_tables` says of it."""
    return Judgement(row.window.key, row.completeness, row.problems, bool(row.open_in), tuple(unbalanced), row.paused)


def unbalanced_tables(rows: Iterable[WindowTable], quarantine_rows: Mapping[int, int] | None) -> tuple[str, ...]:
    """Return what the counts of a window's tables leave out: ``("p00 shopdb.orders", "p01 quarantine: 1 rows, 0 counted")``.

    ``quarantine_rows`` are the rows that the window's tables have in ``quarantine`` by Kafka partition; None where they were not
    looked at.
    """
    rows = tuple(rows)
    found = [f"{partition_key(row.kafka_partition)} {row.table}" for row in rows if not row.balanced]
    if quarantine_rows is not None:
        counted = {row.kafka_partition: 0 for row in rows}
        for row in rows:
            counted[row.kafka_partition] += row.quarantined_entries
        for partition in sorted(counted.keys() | quarantine_rows.keys()):
            wrong = _quarantine(counted.get(partition, 0), quarantine_rows.get(partition, 0))
            found += [f"{partition_key(partition)} {text}" for text in wrong]
    return tuple(found)


def with_quarantined(mark: Cut, entries: int) -> Cut:
    """Return a mark that names the entries of its window in quarantine.

    What was in them is missing from the tables.
    """
    if not entries:
        return mark
    problem = Problem(ProblemCode.QUARANTINED, None, None, f"{entries} entries of tables are in quarantine")
    return replace(mark, completeness=Completeness.INCOMPLETE, problems=(*mark.problems, problem))


def with_ambiguous(mark: Cut, changes: int) -> Cut:
    """Return a mark that names changes which snapshots did not apply, since they may mean several rows."""
    if not changes:
        return mark
    problem = Problem(ProblemCode.QUARANTINED, None, None, f"{changes} {AMBIGUOUS_CHANGES}")
    return replace(mark, completeness=Completeness.INCOMPLETE, problems=(*mark.problems, problem))


def names_ambiguous(mark: Cut) -> bool:
    """Return whether a mark names changes that snapshots did not apply."""
    return any(map(_is_ambiguous, mark.problems))


def _is_ambiguous(problem: Problem) -> bool:
    return problem.code is ProblemCode.QUARANTINED and problem.detail.endswith(AMBIGUOUS_CHANGES)


def corrected_marks(
    stored: Iterable[Cut], changes: Mapping[datetime, int], *, without: Collection[Window] = ()
) -> tuple[Cut, ...]:
    """Return the stored marks that name another number of ambiguous changes than their windows have, corrected.

    ``changes`` are those of now by window start. The next run judges such a window again, as if its proof had changed; until then
    one that was incomplete stays so. Marks of windows ``without`` are left out.
    """
    found = []
    for mark in stored:
        count = changes.get(mark.window.start, 0)
        others = tuple(one for one in mark.problems if not _is_ambiguous(one))
        now = with_ambiguous(replace(mark, problems=others), count)
        if mark.window not in without and now.problems != mark.problems:
            found.append(replace(now, inputs=tuple(sorted(row_inputs(mark.inputs)))))
    return tuple(found)


def group_by_window(rows: Iterable[WindowTable]) -> dict[datetime, list[WindowTable]]:
    """Return the counts of tables by window start."""
    found: dict[datetime, list[WindowTable]] = {}
    for row in rows:
        found.setdefault(row.window_start, []).append(row)
    return found


def _named(paused: Sequence[MissingTable]) -> str:
    more = f" and {len(paused) - MOST_NAMED} more" if len(paused) > MOST_NAMED else ""
    return ", ".join(str(one.id) for one in paused[:MOST_NAMED]) + more


def _quarantine(counted: int, rows: int) -> list[str]:
    return [] if counted == rows else [f"quarantine: {rows} rows, {counted} counted"]
