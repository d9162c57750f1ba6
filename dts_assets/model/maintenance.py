"""The steps of maintenance, and what each of them did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Step(StrEnum):
    """A step of maintenance. They are done in this order: a later one frees what earlier ones leave behind."""

    RETENTION = "retention"
    TAGS = "tags"
    COMPACTION = "compaction"
    SORTING = "sorting"
    EXPIRY = "expiry"
    ORPHANS = "orphans"


USUAL_STEPS = (Step.RETENTION, Step.TAGS, Step.COMPACTION, Step.EXPIRY, Step.ORPHANS)
"""The steps that are done if none is named: all but sorting, which rewrites whole tables."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """The outcome of a step of maintenance, or what it would be in a dry run.

    ``tables`` is the number of tables that it changed, ``freed_bytes`` the bytes that left the store. ``numbers`` are further
    counts by name, the same ones each time, and ``details`` has a line for each table or part. ``failed`` says why the step, or
    a part of it, was not done.
    """

    step: Step
    tables: int = 0
    freed_bytes: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
