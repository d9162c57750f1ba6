"""Judges the rows that a consumer ended with, case by case, from plain files alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from dts_emulator.conformance.reading import CHANGES, EXPECTED, ReadCase
from dts_emulator.conformance.texts import ValueKind, comparable
from dts_emulator.errors import NotAResult

ROWS_OF_RESULT, CHANGES_OF_RESULT, QUARANTINE_OF_RESULT = "rows", "changes", "quarantine.json"

Row = tuple[tuple[str, str | None], ...]


class Outcome(StrEnum):
    """The end of a case; the value is the word that people read."""

    PASS = "pass"
    FAIL = "FAIL"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a case. Differences name tables, counts of rows and columns, and no values."""

    case: ReadCase
    outcome: Outcome
    differences: tuple[str, ...] = ()


def judge(cases: Sequence[ReadCase], results: Path) -> tuple[Verdict, ...]:
    """Return the verdicts on all cases. A format of which the results have nothing was not run.

    Raises:
        NotAResult: A file of the results cannot be read.
    """
    return tuple(_verdict(case, results) for case in cases)


def _verdict(case: ReadCase, results: Path) -> Verdict:
    if not (results / case.format).is_dir():
        return Verdict(case, Outcome.NOT_RUN)
    found = results / case.format / case.name
    if not found.is_dir():
        return Verdict(case, Outcome.FAIL, ("there is no result",))
    differences = [*_tables(case, found), *_strangers(case, found), *_quarantine(case, found)]
    return Verdict(case, Outcome.FAIL if differences else Outcome.PASS, tuple(differences))


def _tables(case: ReadCase, found: Path) -> Iterable[str]:
    for table in case.described["tables"]:
        kinds = {one["name"]: ValueKind(one["kind"]) for one in table["columns"]}
        name = table["file"]
        label = name.removesuffix(".jsonl")
        rows = _lines(found / ROWS_OF_RESULT / name)
        if rows is None and table["rows"]:
            yield f"{label}: there is no file {ROWS_OF_RESULT}/{name}"
            continue
        wanted = [_row(one, kinds) for one in _lines(case.folder / EXPECTED / name) or ()]
        yield from _bags(label, wanted, [_row(one, kinds) for one in rows or ()], table["key"])
        changes = _lines(found / CHANGES_OF_RESULT / name)
        if table["changes"] is not None and changes is not None:
            expected = [_change(one, kinds) for one in _lines(case.folder / CHANGES / name) or ()]
            yield from _sequences(label, expected, [_change(one, kinds) for one in changes])


def _strangers(case: ReadCase, found: Path) -> Iterable[str]:
    known = {table["file"] for table in case.described["tables"]}
    for path in sorted((found / ROWS_OF_RESULT).glob("*.jsonl")):
        if path.name not in known and _lines(path):
            yield f"{path.stem}: the source has no such table"


def _quarantine(case: ReadCase, found: Path) -> Iterable[str]:
    path = found / QUARANTINE_OF_RESULT
    if path.is_file():
        try:
            count = sum(json.loads(path.read_text("utf-8")).values())
        except (ValueError, AttributeError, TypeError):
            raise NotAResult(path, 1, "an object of counts is expected") from None
        wanted = sum(case.described["quarantine"].values())
        if count != wanted:
            yield f"{count} messages or events in quarantine, {wanted} are expected"


def _lines(path: Path) -> list[Mapping[str, Any]] | None:
    """Return the objects of a file, one a line; None without the file.

    Raises:
        NotAResult: A line is no object.
    """
    if not path.is_file():
        return None
    found: list[Mapping[str, Any]] = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except ValueError:
            one = None
        if not isinstance(one, dict):
            raise NotAResult(path, number, "an object of JSON is expected")
        found.append(one)
    return found


def _row(row: Mapping[str, Any], kinds: Mapping[str, ValueKind]) -> Row:
    """Return a row in the form in which rows are compared."""
    return tuple((name, comparable(kinds.get(name, ValueKind.TEXT), _text(row[name]))) for name in sorted(row))


def _text(value: object) -> str | None:
    """Return a value as the suite writes it: that of a consumer which writes numbers is its JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _change(change: Mapping[str, Any], kinds: Mapping[str, ValueKind]) -> tuple[Any, ...]:
    images = (change.get(side) for side in ("before", "after"))
    told = tuple(_row(image, kinds) if isinstance(image, dict) else None for image in images)
    return (change.get("op"), *told, tuple(sorted(change.get("absent") or ())))


def _bags(label: str, wanted: list[Row], found: list[Row], key: Sequence[str]) -> Iterable[str]:
    """Say how rows differ: by key where there is one."""
    missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    if not missing and not extra:
        return
    if key and (names := _differing_columns(missing, extra, key)):
        yield f"{label}: of rows with equal keys these columns differ: {', '.join(names)}"
    yield f"{label}: {missing.total()} rows missing, {extra.total()} rows too many, {len(wanted)} expected"


def _differing_columns(missing: Counter[Row], extra: Counter[Row], key: Sequence[str]) -> list[str]:
    by_key = {tuple(dict(row).get(name) for name in key): dict(row) for row in missing}
    names: set[str] = set()
    for row in extra:
        other = dict(row)
        one = by_key.get(tuple(other.get(name) for name in key))
        if one is not None:
            names.update(name for name in one.keys() | other.keys() if one.get(name, "") != other.get(name, ""))
            names.update(one.keys() ^ other.keys())
    return sorted(names)


def _sequences(label: str, wanted: list[tuple[Any, ...]], found: list[tuple[Any, ...]]) -> Iterable[str]:
    if wanted == found:
        return
    if Counter(wanted) == Counter(found):
        yield f"{label}: changes are in another order"
        return
    place = next(
        (number for number, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(found)),
    )
    yield f"{label}: {len(found)} changes, {len(wanted)} expected; the first that differs is number {place + 1}"
