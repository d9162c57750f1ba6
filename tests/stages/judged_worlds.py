"""Tables with a row filter that send minimal images, and a model of them that knows every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from dts_assets.model.column_rules import TableRules, no_rule, table_rules
from dts_assets.model.stored_filters import StoredFilter, stored_filter
from dts_assets.settings.row_filters import filter_of
from dts_assets.stages.column_rules import apply_rules
from tests.stages import ruled
from tests.stages.merging import batch
from tests.stages.worlds import COLUMNS, KEYS, Change, Key, Row

NAMES = [column.name for column in COLUMNS]
OTHERS = NAMES[2:]


@dataclass(frozen=True)
class Filter:
    """A filter as it is written, the same in Python, and its columns."""

    text: str
    passes: Callable[[Row], bool]
    columns: tuple[str, ...]

    @property
    def rules(self) -> TableRules:
        found = table_rules(COLUMNS, no_rule, filter_of(self.text))
        assert found is not None
        return found

    @property
    def stored(self) -> StoredFilter:
        found = stored_filter(self.rules, COLUMNS)
        assert found is not None
        return found


def _is(value: Any, test: Callable[[Any], bool]) -> bool:
    return value is not None and test(value)


FILTERS = (
    Filter("amount > 0", lambda row: _is(row[3], lambda one: one > 0), ("amount",)),
    Filter("amount IS NULL", lambda row: row[3] is None, ("amount",)),
    Filter(
        "name <> 'a' AND amount >= 1",
        lambda row: _is(row[2], lambda one: one != "a") and _is(row[3], lambda one: one >= 1),
        ("name", "amount"),
    ),
    Filter(
        "name IS NULL OR NOT (amount = 2)",
        lambda row: row[2] is None or _is(row[3], lambda one: one != 2),
        ("name", "amount"),
    ),
    Filter(
        "`id.no` > 2 AND name IN ('b', '')", lambda row: row[1] > 2 and row[2] in ("b", ""), ("id.no", "name")
    ),
)  # fmt: skip


def minimal(changes: Iterable[Change]) -> list[Change]:
    """The changes with the key alone in old images, as MySQL and MariaDB send them."""
    return [replace(one, unsent=tuple(OTHERS)) if one.before is not None else one for one in changes]


def of_any_kind(changes: Iterable[Change], chance: Random, *, whole: bool = False) -> list[Change]:
    """The changes with old images of any kind, or ``whole`` ones, and inserts that do not send what is NULL."""
    made = []
    for one in changes:
        if one.before is not None:
            kinds = [(), ("name",), ("amount",), tuple(OTHERS)]
            made.append(replace(one, unsent=() if whole else chance.choice(kinds)))
        else:
            assert one.after is not None
            nulls = [name for name, value in zip(NAMES, one.after, strict=True) if value is None]
            made.append(replace(one, absent=tuple(nulls) if chance.random() < 0.5 else ()))
    return made


def in_windows(changes: Iterable[Change], ends: Sequence[int]) -> list[Change]:
    """The changes, of which each window has those up to a number."""
    return [replace(one, window=sum(number >= end for end in ends)) for number, one in enumerate(changes)]


def ruled_changes(changes: Sequence[Change], rules: TableRules) -> list[Change]:
    """The rows of the changelog of one window."""

    def sent(image: Row | None, absent: Sequence[str]) -> dict[str, Any] | None:
        return None if image is None else {n: v for n, v in zip(NAMES, image, strict=True) if n not in absent}

    some = [
        ruled.Change(one.op, sent(one.before, one.unsent), sent(one.after, one.absent)) for one in changes
    ]  # fmt: skip
    found = apply_rules(ruled.changes_of(ruled.batch_of(some, rules.decoded), KEYS), rules)
    made = []
    for row in found.changes.batch.to_pylist():
        images = [None if row[side] is None else tuple(row[side].values()) for side in ("before", "after")]
        lists = [
            [name.partition(".")[2] for name in row["absent"] if name.startswith(f"{side}.")]
            for side in ("before", "after")
        ]
        made.append(
            replace(
                changes[row["entry_index"]], op=row["op"], before=images[0], after=images[1], unsent=tuple(lists[0]),
                absent=tuple(lists[1]),
            )
        )  # fmt: skip
    assert len(made) + len(found.left_out) == len(changes)
    return made


def changelogs(changes: Sequence[Change], rules: TableRules) -> list[pa.RecordBatch]:
    """The changelog of each window; a window is decoded alone."""
    windows = range(max((one.window for one in changes), default=0) + 1)
    return [batch(ruled_changes([one for one in changes if one.window == number], rules)) for number in windows]


def as_known(changes: Iterable[Change], chosen: Filter) -> tuple[list[Change], dict[Key, Row]]:
    """What a filtered table goes through, as changes with whole images, and its rows in the end.

    A row is known from what was sent of it since it came in; whether it passes is asked of the source's whole row.
    """
    rows: dict[Key, Row] = {}
    made = []
    for one in changes:
        old = None if one.before is None else rows.pop(one.before[:2], None)
        new: Row | None = None
        if one.after is not None and chosen.passes(one.after):
            sent = {name for name in NAMES if name in KEYS or name not in one.absent}
            sent |= {*NAMES} - {*one.unsent} if one.op == "update" else {*()}
            if one.op == "insert" or old is not None or sent.issuperset(chosen.columns):
                name, amount = old[2:] if old is not None else (None, None)
                name = one.after[2] if "name" in sent else name
                amount = one.after[3] if "amount" in sent else amount
                rows[one.after[:2]] = new = (*one.after[:2], name, amount)
        if old is not None or new is not None:
            op = "insert" if old is None else "delete" if new is None else "update"
            made.append(replace(one, op=op, before=old, after=new, absent=(), unsent=()))
    return made, rows
