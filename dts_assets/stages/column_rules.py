"""Rules on columns and rows applied to decoded changes, before rows of the changelog are made.

Each image of a change is judged by itself: an update into the filter is an insert, an update out of it a delete. Changes that
do not tell all columns of the filter are left to the merge (``stages/judged_changes.py``), which has the stored row.

In old images of a source with a schema NULL may stand for a value that was not sent. With a primary key it is absent, and
without one the merge finds the stored row of such a change, or names the change (``stages/matched_rows.py``).

Values that a rule replaces are gone behind this step, with what stood of them in ``invalid``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.column_rules import ColumnRule, RuleKind, TableRules
from dts_assets.stages.document_tokens import UntokenizableError, tokenized_documents, tokenized_json
from dts_assets.stages.keyed_values import hashed, key_of_unfit, tokenized
from dts_assets.stages.row_filters import truths
from dts_assets.wire.columns.buffers import offsets_of, run_lengths
from dts_assets.wire.format import TableChanges

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_SIDES = ("before", "after")


class RulesError(Exception):
    """A change that the rules of its table cannot judge. The text is a clause, which names no value."""


@dataclass(frozen=True, slots=True)
class RuledChanges:
    """The changes of a table as its rules make them.

    ``left_out`` are the rows of the entry batch that changes were left out of, once for each change.
    """

    changes: TableChanges
    left_out: Numbers


@dataclass(slots=True)
class _Notes:
    """Notes on single values of some rows: ``owners`` are their rows, ``places`` their columns.

    The place of column n is n in the image before, and n and the number of columns in the image after.
    """

    owners: Numbers
    places: Numbers

    def of(self, place: int, count: int) -> Mask:
        """Return the rows that have a note on a place."""
        found = np.zeros(count, np.bool_)
        found[self.owners[self.places == place]] = True
        return found


def apply_rules(changes: TableChanges, rules: TableRules) -> RuledChanges:
    """Return the changes of a table under its rules; ``changes`` have its decoded columns.

    Raises:
        RulesError: An image lacks a column of the row filter and nothing else tells, or a rule destroys a key or a document.
    """
    clause = rules.unusable_key(name for key in changes.keys.distinct for name in key)
    if clause is not None:
        raise RulesError(clause)
    work = _Work(changes, rules)
    kept = None if rules.rows is None else work.judge()
    made = replace(changes, batch=work.batch(), own=work.own())
    if kept is None or kept.all():
        return RuledChanges(made, np.zeros(0, np.int64))
    left_out = changes.batch["entry_index"].to_numpy()[~kept].astype(np.int64)
    batch = made.batch.filter(pa.array(kept))
    own = {name: tuple(part.filter(pa.array(kept)) for part in parts) for name, parts in made.own.items()}
    return RuledChanges(
        replace(made, batch=batch, keys=made.keys.of_rows(kept), carried=made.carried.of_rows(kept), own=own), left_out
    )


class _Work:
    """The changes of one table while rules are applied: images, notes and operations."""

    def __init__(self, changes: TableChanges, rules: TableRules) -> None:
        self._batch, self._rules = changes.batch, rules
        self._names = [column.name for column in rules.decoded]
        self._count = changes.batch.num_rows
        self._null_if_unsent = bool(changes.table.schema)
        told = changes.keys.distinct
        keyed = np.array([bool(key) for key in told] or [bool(rules.keys)], np.bool_)
        self._keyed = np.full(self._count, keyed[0]) if changes.keys.numbers is None else keyed[changes.keys.numbers]
        self._keys = frozenset().union(*told) if told else rules.keys
        self._operations: pa.Array = self._batch["op"]
        self._valid = {side: np.asarray(self._batch[side].is_valid()) for side in _SIDES}
        self._fields = {
            side: {name: pc.struct_field(self._batch[side], [at]) for at, name in enumerate(self._names)}
            for side in _SIDES
        }
        self._json = changes.json
        self._own = {side: {name: changes.own.get(f"{side}.{name}", ()) for name in self._names} for side in _SIDES}
        known = pa.array([f"{side}.{name}" for side in _SIDES for name in self._names], pa.string())
        self._known = known
        absent, invalid = self._batch["absent"], self._batch["invalid"]
        self._absent = _notes(absent, absent.flatten(), known)
        bounds = offsets_of(invalid)
        some = slice(bounds[0], bounds[-1])
        self._invalid = _notes(invalid, invalid.keys[some], known)
        self._texts: pa.Array = invalid.items[some]

    def judge(self) -> Mask:
        """Return the rows that the filter lets through, and those that a merge judges by the stored row.

        Updates that cross its border become inserts and deletes. Where a merge judges, a change stays as it is that does not tell
        all columns of the filter, and an update stays one that brings a row in without all columns.

        Raises:
            RulesError: An image lacks a column of the filter and nothing else tells.
        """
        names = [column.name for column in self._rules.filter_columns]
        lacks = {side: self._lacking(side, names) for side in _SIDES}
        before = self._truth("before", {name: self._fields["before"][name] for name in names})
        after = self._truth("after", {name: self._last_sent(name) for name in names})
        updates = np.asarray(pc.equal(self._operations, "update"))
        deletes = np.asarray(pc.equal(self._operations, "delete")) | ~self._valid["after"]
        # What an update does not send of the new image is as it was in the old one.
        still_lacks = updates & self._valid["before"]
        nulls = self._nulls_in_old(names)
        untold = [old | null for old, null in zip(lacks["before"], nulls, strict=True)]
        unknown_after = np.logical_or.reduce(
            [lack & ~(still_lacks & ~old) for lack, old in zip(lacks["after"], untold, strict=True)]
        )
        unknown_after &= self._valid["after"] & ~deletes
        unknown_before = np.logical_or.reduce(lacks["before"]) | ~self._valid["before"]
        unknown_before &= updates | deletes
        partial = np.isin(np.arange(self._count), self._absent.owners[self._absent.places >= len(self._names)])
        later = self._keyed & self._rules.merge_judges
        self._refuse(
            unknown_after & ~later,
            "an image lacks a column of its row filter, and nothing else tells what the row has there",
        )
        self._refuse(
            unknown_after & ~np.logical_and.reduce(lacks["after"]) & self._rules.writes_statements,
            "an update sends some columns of its row filter and not all, and its statements are written without a stored row",
        )
        self._refuse(
            unknown_before & ~self._keyed,
            "an old image lacks a column of its row filter, and without a primary key no stored row can tell",
        )
        unknown_before |= self._doubtful(nulls, (updates | deletes) & ~before)
        if self._rules.keeps_deleted:
            self._refuse(
                unknown_before & self._keyed & ~later & (deletes | ~after | self._moved()),
                "an old image lacks a column of its row filter, and a row that never passed would stay as a deleted one",
            )
        if self._rules.follows:
            # A row may stand that the filter before let through; nobody knows, whatever this one says of the old image.
            unknown_before |= (updates | deletes) & ~before
            self._refuse(
                unknown_before & (deletes | ~after | self._moved()) & self._rules.keeps_deleted,
                "another row filter was in force before a statement, and a row that never passed would stay as a deleted one",
            )
        after &= ~unknown_after
        comes_in_part = updates & after & (~before | unknown_before) & partial
        self._refuse(
            comes_in_part & (~later | self._rules.writes_statements),
            "an update brings a row into its row filter, or may do so, and does not send all columns of it",
        )
        enters = updates & after & ~before & ~unknown_before
        partial &= ~self._complete(enters & partial)
        leaves = updates & ~after & ~unknown_after & (before | unknown_before)
        self._become("insert", enters & ~partial, without="before")
        self._become("update", enters & partial, without="before")
        self._leave(leaves)
        kept = np.where(deletes, before | unknown_before, np.where(updates, after | leaves, after))
        return np.asarray(kept | unknown_after, np.bool_)

    def batch(self) -> pa.RecordBatch:
        """Return the columns of the changes, with images of the stored columns."""
        for name, rule in self._rules.columns.items():
            if rule.kind is not RuleKind.DROP:
                for number, side in enumerate(_SIDES):
                    self._fields[side][name] = self._replaced(side, name, number, rule)
        stored = [column.name for column in self._rules.stored]
        gone = self._rules.columns.keys() - set(stored)
        at = {name: place for place, name in enumerate(self._names)}
        dropped = [at[name] + side * len(self._names) for name in gone if name in at for side in (0, 1)]
        rewritten = [
            at[name] + side * len(self._names) for name in self._rules.columns if name in at for side in (0, 1)
        ]
        absent = np.isin(self._absent.places, dropped, invert=True)
        invalid = np.isin(self._invalid.places, rewritten, invert=True)
        columns = {
            "entry_index": self._batch["entry_index"],
            "row_number": self._batch["row_number"],
            "op": self._operations,
            "before": self._image("before", stored),
            "after": self._image("after", stored),
            "absent": self._listed(self._absent, absent),
            "invalid": self._mapped(invalid),
        }
        return pa.RecordBatch.from_pydict(columns)

    def own(self) -> dict[str, tuple[pa.Array, ...]]:
        """Return the values of columns by the types of their events, for the images that are left."""
        found = {}
        for side in _SIDES:
            shown = pa.array(self._valid[side])
            for name in (column.name for column in self._rules.stored):
                if parts := self._own[side].get(name):
                    found[f"{side}.{name}"] = tuple(
                        pc.if_else(shown, part, pa.scalar(None, part.type)) for part in parts
                    )
        return found

    def _truth(self, side: str, columns: dict[str, pa.Array]) -> Mask:
        assert self._rules.rows is not None
        found = pc.fill_null(truths(self._rules.rows, columns), False)
        truth: Mask = np.asarray(found.to_numpy(zero_copy_only=False), np.bool_) & self._valid[side]
        return truth

    def _lacking(self, side: str, names: list[str]) -> list[Mask]:
        """Return, for each column, the rows whose image was sent without it."""
        base = len(self._names) * _SIDES.index(side)
        return [self._absent.of(base + self._names.index(name), self._count) for name in names]

    def _nulls_in_old(self, names: list[str]) -> list[Mask]:
        """Return, for each column, the changes whose old image has NULL that may not have been sent.

        They have no primary key: with one such a column is absent.
        """
        found = []
        for place in map(self._names.index, names):
            nulls = self._valid["before"] & ~self._keyed & self._null_if_unsent
            nulls &= np.asarray(self._fields["before"][self._names[place]].is_null())
            nulls &= ~self._absent.of(place, self._count) & ~self._invalid.of(place, self._count)
            found.append(nulls)
        return found

    def _doubtful(self, nulls: list[Mask], outside: Mask) -> Mask:
        """Return the changes that seem to be ``outside`` by NULL that may not have been sent.

        Raises:
            RulesError: No stored row can tell whether it does.
        """
        found = np.logical_or.reduce(nulls) & outside
        if self._rules.writes_statements or not self._rules.looked_at <= {one.name for one in self._rules.stored}:
            self._refuse(
                found,
                "NULL in an old image may stand for a value that was not sent, and no stored row can tell what it was",
            )
        return np.asarray(found, np.bool_)

    def _last_sent(self, name: str) -> pa.Array:
        """Return a column of the new image, from the old one where it was not sent."""
        place = self._names.index(name)
        lacks = self._absent.of(place + len(self._names), self._count)
        new = self._fields["after"][name]
        return pc.if_else(pa.array(lacks), self._fields["before"][name], new) if lacks.any() else new

    def _moved(self) -> Mask:
        """Return the rows with another key in the new image than the old one tells."""
        moved = np.zeros(self._count, np.bool_)
        for place, name in enumerate(self._names):
            if name in self._keys:
                old, new = self._fields["before"][name], self._fields["after"][name]
                same = np.asarray(pc.fill_null(pc.equal(old, new), False).to_numpy(zero_copy_only=False), np.bool_)
                moved |= ~same & self._valid["before"] & ~self._absent.of(place, self._count)
        return moved

    def _refuse(self, rows: Mask, clause: str) -> None:
        if rows.any():
            raise RulesError(clause)

    def _become(self, operation: str, rows: Mask, *, without: str) -> None:
        """Make another operation of some rows, which has one image fewer."""
        if not rows.any():
            return
        self._operations = pc.if_else(pa.array(rows), operation, self._operations)
        self._valid[without] = self._valid[without] & ~rows
        half = len(self._names)
        first = 0 if without == "before" else half

        def stays(notes: _Notes) -> Mask:
            inside = (notes.places >= first) & (notes.places < first + half)
            return ~(rows[notes.owners] & inside)

        absent, invalid = stays(self._absent), stays(self._invalid)
        self._absent = _Notes(self._absent.owners[absent], self._absent.places[absent])
        self._invalid = _Notes(self._invalid.owners[invalid], self._invalid.places[invalid])
        self._texts = self._texts.filter(pa.array(invalid))

    def _complete(self, rows: Mask) -> Mask:
        """Give new images what the old ones have, and return the rows that lack no column then."""
        half, lacking = len(self._names), np.zeros(self._count, np.bool_)
        for place in range(half if rows.any() else 0):
            lacks = rows & self._absent.of(place + half, self._count)
            taken = lacks & ~self._absent.of(place, self._count)
            lacking |= lacks & ~taken
            self._take_over(taken, place, "before", "after")
        return rows & ~lacking

    def _take_over(self, rows: Mask, place: int, origin: str, target: str) -> None:
        """Give one image of some rows the column at a place as the other image has it."""
        if not rows.any():
            return
        name, taken, half = self._names[place], pa.array(rows), len(self._names)
        there, here = (place + half * _SIDES.index(side) for side in (origin, target))
        self._fields[target][name] = pc.if_else(taken, self._fields[origin][name], self._fields[target][name])
        own = zip(self._own[origin][name], self._own[target][name], strict=True)
        self._own[target][name] = tuple(pc.if_else(taken, one, other) for one, other in own)
        stays = ~((self._absent.places == here) & rows[self._absent.owners])
        self._absent = _Notes(self._absent.owners[stays], self._absent.places[stays])
        moved = (self._invalid.places == there) & rows[self._invalid.owners]
        self._invalid = _Notes(self._invalid.owners, np.where(moved, here, self._invalid.places))

    def _leave(self, rows: Mask) -> None:
        """Make deletes of updates. An old image that lacks the key has it from the new one: it was not sent as it is the same."""
        if not rows.any():
            return
        half, imageless = len(self._names), rows & ~self._valid["before"]
        for place, name in enumerate(self._names):
            if name not in self._keys:
                continue
            taken = (
                rows & (imageless | self._absent.of(place, self._count)) & ~self._absent.of(place + half, self._count)
            )
            self._take_over(taken, place, "after", "before")
        if imageless.any():
            others = [place for place, name in enumerate(self._names) if name not in self._keys]
            owners, places = np.repeat(np.flatnonzero(imageless), len(others)), np.tile(others, int(imageless.sum()))
            self._absent = _Notes(
                np.concatenate([self._absent.owners, owners]),
                np.concatenate([self._absent.places, places.astype(np.int64)]),
            )
        self._valid["before"] = self._valid["before"] | rows
        self._become("delete", rows, without="after")

    def _replaced(self, side: str, name: str, number: int, rule: ColumnRule) -> pa.Array:
        """Return the values of a column as a rule makes them, those that did not fit among them."""
        place = self._names.index(name) + number * len(self._names)
        values = self._fields[side][name]
        unfit = np.flatnonzero(self._invalid.places == place)
        rows = np.full(self._count, -1)
        rows[self._invalid.owners[unfit]] = unfit
        texts = None
        if len(unfit):
            texts = self._texts.take(pa.array(rows, pa.int64(), mask=rows < 0)).cast(pa.binary())
        if rule.kind is RuleKind.MASK:
            there = values.is_valid() if texts is None else pc.or_(values.is_valid(), texts.is_valid())
            return pc.if_else(there, pa.scalar(rule.text), pa.scalar(None, pa.string()))
        if rule.kind is RuleKind.HASH:
            read = hashed(values.cast(pa.binary()), rule.key)
            return read if texts is None else pc.coalesce(read, hashed(texts, key_of_unfit(rule.key)))
        found = self._tokenized(values, name, place, rule)
        # A value that is no text may hide what the pattern looks for.
        return found if texts is None else pc.coalesce(found, tokenized(texts, rule))

    def _tokenized(self, values: pa.Array, name: str, place: int, rule: ColumnRule) -> pa.Array:
        """Return values with tokens: in documents and in JSON for each text by itself.

        Raises:
            RulesError: A document would be none, or another one.
        """
        if self._rules.of_documents:
            try:
                return tokenized_documents(values, rule, are_updates=self._absent.of(place, self._count))
            except UntokenizableError as error:
                raise RulesError(str(error)) from None
        json = self._json_rows(name)
        if pa.types.is_binary(values.type) or not json.any():
            return tokenized(values, rule)
        is_json, none = pa.array(json), pa.scalar(None, values.type)
        texts = none if json.all() else tokenized(pc.if_else(is_json, none, values), rule)
        return pc.if_else(is_json, tokenized_json(pc.if_else(is_json, values, none), rule), texts)

    def _json_rows(self, name: str) -> Mask:
        """Return the rows in whose events the values of a column are JSON."""
        has = np.array([name in one for one in self._json.distinct] or [False])
        return np.full(self._count, has[0]) if self._json.numbers is None else has[self._json.numbers]

    def _image(self, side: str, names: list[str]) -> pa.StructArray:
        children = [self._fields[side][name] for name in names]
        fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(~self._valid[side]))

    def _listed(self, notes: _Notes, chosen: Mask) -> pa.ListArray:
        owners, places = notes.owners[chosen], notes.places[chosen]
        order = np.lexsort((places, owners))
        names = self._known.take(pa.array(places[order]))
        return pa.ListArray.from_arrays(self._bounds(owners), names)

    def _mapped(self, chosen: Mask) -> pa.MapArray:
        owners, places = self._invalid.owners[chosen], self._invalid.places[chosen]
        order = np.lexsort((places, owners))
        names, texts = (
            self._known.take(pa.array(places[order])),
            self._texts.filter(pa.array(chosen)).take(pa.array(order)),
        )
        return pa.MapArray.from_arrays(self._bounds(owners), names, texts)

    def _bounds(self, owners: Numbers) -> pa.Array:
        return pa.array(run_lengths(np.bincount(owners, minlength=self._count)))


def _notes(lists: pa.Array, names: pa.Array, known: pa.Array) -> _Notes:
    """Return the notes of a column of lists or maps."""
    owners = np.repeat(np.arange(len(lists)), np.diff(offsets_of(lists)))
    places = pc.index_in(names, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    return _Notes(owners, places)
