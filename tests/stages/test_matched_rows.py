"""Changes of a table without a key that send a part of their row, against a small model: a list of rows and one loop over it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from dts_assets.model.columns import Column
from dts_assets.model.positions import SourcePosition
from dts_assets.model.removals import ALL_REMOVED, NotRemoved
from dts_assets.stages.change_columns import TRUNCATE, RowShape
from dts_assets.stages.key_operations import joined
from dts_assets.stages.row_folds import MadeRows, living_rows
from tests.stages.merging import NAMES, SNAPSHOT, batch, merged, parts_of, shared, stored
from tests.stages.versioning import BAG as VERSIONS
from tests.stages.versioning import NOTHING, advanced
from tests.stages.worlds import COLUMNS, Change, Row, at
from tests.tiers import times

SENT = RowShape.of(tuple(Column(one.name, one.type, is_key=False) for one in COLUMNS), NAMES, SNAPSHOT, unfit=False)
CHANGED = replace(SENT, changed_only=True)
FIELDS = tuple(one.name for one in COLUMNS)


@dataclass
class Model:
    """The rows of a table without a key, and the places of the changes that may mean several different ones."""

    changed_only: bool = False
    rows: list[Row] = field(default_factory=list)
    ambiguous: list[tuple[SourcePosition, int]] = field(default_factory=list)

    def matches(self, row: Row, change: Change) -> bool:
        assert change.before is not None
        for name, stood, old, new in zip(FIELDS, row, change.before, change.after or change.before, strict=True):
            may_be_null = self.changed_only and change.op == "update" and old == new
            if name not in change.unsent and stood != old and not (may_be_null and stood is None):
                return False
        return True

    def apply(self, change: Change) -> None:
        stood: Row | None = None
        if change.before is not None:
            found = [row for row in self.rows if self.matches(row, change)]
            if len(set(found)) > 1:
                self.ambiguous.append((change.position, change.row_number))
                return
            if found:
                stood = found[0]
                self.rows.remove(stood)
        if change.after is not None:
            told = [
                None if name in change.unsent else old
                for name, old in zip(FIELDS, change.before or change.after, strict=True)
            ]
            others = told if stood is None else stood
            pairs = zip(FIELDS, change.after, others, strict=True)
            self.rows.append(tuple(old if name in change.absent else new for name, new, old in pairs))  # type: ignore[arg-type]


def some(chance: random.Random) -> Row:
    return chance.randint(0, 2), chance.randint(0, 2), chance.choice([None, "a", "b"]), chance.choice([None, 1])


def by_key(chance: random.Random, rows: Sequence[Row]) -> Change:
    """What a server with minimal images sends of a table with a UNIQUE key on the first two columns."""
    old = chance.choice([*rows, some(chance)])
    taken = {row[:2] for row in rows}
    new = some(chance)
    if chance.random() < 0.3 and new[:2] not in taken:
        return Change("insert", None, new, at(1, 0))
    if chance.random() < 0.3:
        return Change("delete", old, None, at(1, 0), unsent=FIELDS[2:])
    new = new if new[:2] not in taken or chance.random() < 0.1 else (*old[:2], *new[2:])
    same = tuple(name for name, one, other in zip(FIELDS, old, new, strict=True) if one == other)
    return Change("update", old, new, at(1, 0), unsent=FIELDS[2:], absent=same if chance.random() < 0.8 else ())


def by_anything(chance: random.Random, rows: Sequence[Row]) -> Change:
    """Any columns of a row that stands or not; often several rows match."""
    old, new = chance.choice([*rows, some(chance)]), some(chance)
    if chance.random() < 0.4:
        return Change("insert", None, new, at(1, 0))
    unsent, absent = (tuple(name for name in FIELDS if chance.random() < 0.4) for _ in range(2))
    if chance.random() < 0.4:
        return Change("delete", old, None, at(1, 0), unsent=unsent)
    return Change("update", old, new, at(1, 0), unsent=unsent, absent=absent)


def by_changes(chance: random.Random, rows: Sequence[Row]) -> Change:
    """Canal's old rows: what has changed, and NULL that became a value is not among it."""
    old, new = chance.choice([*rows, some(chance)]), some(chance)
    if chance.random() < 0.4:
        return Change("insert", None, new, at(1, 0))
    if chance.random() < 0.3:
        return Change("delete", old, None, at(1, 0))
    new = tuple(new[n] if chance.random() < 0.5 else old[n] for n in range(4))  # type: ignore[assignment]
    told = tuple(new[n] if old[n] is None else old[n] for n in range(4))
    return Change("update", told, new, at(1, 0))  # type: ignore[arg-type]


Source = Callable[[random.Random, Sequence[Row]], Change]


def history(seed: int, source: Source, steps: int = 40) -> tuple[list[Change], list[Model]]:
    """Changes, and the model behind each of them."""
    chance, model, changes, models = random.Random(seed), Model(source is by_changes), list[Change](), list[Model]()
    for number in range(steps):
        change = replace(
            source(chance, model.rows), position=at(1, number // 3), row_number=number % 3, kafka_offset=number
        )
        changes.append(change)
        model.apply(change)
        models.append(replace(model, rows=[*model.rows], ambiguous=[*model.ambiguous]))
    return changes, models


def held(rows: pa.RecordBatch) -> Counter[Row]:
    return Counter(tuple(one[name] for name in NAMES) for one in rows.to_pylist())


def places(made: MadeRows) -> list[tuple[SourcePosition, int]]:
    found = [] if made.ambiguous is None else made.ambiguous.to_pylist()
    assert len(found) == made.not_removed.ambiguous
    return sorted((SourcePosition(one["lineage"], one["file"], one["position"]), one["row_number"]) for one in found)


SOURCES: list[tuple[Source, RowShape]] = [(by_key, SENT), (by_anything, SENT), (by_changes, CHANGED)]


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("source", "shape"), SOURCES)
def test_the_columns_that_were_sent_find_the_row(source: Source, shape: RowShape) -> None:
    """In one piece and going on from any middle; so does what stays open of a history, and what lives beside deleted rows."""
    several = 0
    for seed in range(times(4, 100)):
        changes, models = history(seed, source)
        rows, cut, nothing = Counter(models[-1].rows), seed % 40, stored([])
        made = living_rows(joined(parts_of([batch(changes)], shape=shape)), shape)
        assert held(made.rows) == rows, seed
        assert places(made) == models[-1].ambiguous
        several += len(models[-1].ambiguous)
        shares, middle = 1 + 2 * (seed % 2), cut + (len(changes) - cut) // 2
        first = merged(nothing, [batch(changes[:cut])], shape=shape, fold_absent=True, shares=shares)
        assert held(first) == Counter(models[cut - 1].rows if cut else [])
        batches = [batch(changes[cut:middle]), batch(changes[middle:])]
        assert held(merged(first, batches, shape=shape, fold_absent=True, shares=shares)) == rows, seed
        versions = replace(VERSIONS, changed_only=shape.changed_only)
        whole = advanced(NOTHING, [batch(changes)], shape=versions)
        begun = advanced(
            advanced(NOTHING, [batch(changes[:cut])], shape=versions, shares=shares),
            batches,
            shape=versions,
            shares=shares,
        )
        assert sorted(map(str, begun.to_pylist())) == sorted(map(str, whole.to_pylist()))
        assert held(whole.filter(whole["_valid_to"].is_null())) == rows
    assert several or source is by_key


def test_rows_of_a_server_with_minimal_images_are_the_databases() -> None:
    """With a UNIQUE key that all changes tell nothing is ambiguous, and no row of a key is there twice."""
    for seed in range(times(8, 300)):
        chance, rows, changes = random.Random(seed), dict[tuple[int, int], Row](), list[Change]()
        for number in range(40):
            change = replace(by_key(chance, list(rows.values())), position=at(1, number))
            if change.before is not None and rows.get(change.before[:2]) != change.before:
                continue
            free = change.after is None or change.after[:2] not in rows
            if not free and (change.before is None or change.before[:2] != change.after[:2]):  # type: ignore[index]
                continue
            changes.append(change)
            if change.before is not None:
                del rows[change.before[:2]]
            if change.after is not None:
                rows[change.after[:2]] = change.after
        made = living_rows(joined(parts_of([batch(changes)], shape=SENT)), SENT)
        assert held(made.rows) == Counter(rows.values())
        assert made.not_removed.ambiguous == made.not_removed.unmatched == 0


def test_keys_that_move_within_one_event_in_several_pieces() -> None:
    """``UPDATE t SET id = id + 1``, cut over Kafka partitions by key: pieces have no order."""
    rows = [(0, number, None, number) for number in range(6)]
    came = [Change("insert", None, row, at(1, number)) for number, row in enumerate(rows)]
    moved = [
        Change(
            "update",
            row,
            (0, row[1] + 1, None, row[3]),
            at(1, 9),
            number,
            row[1] % 3,
            unsent=FIELDS[2:],
            absent=FIELDS[2:],
        )
        for number, row in enumerate(reversed(rows))
    ]
    made = living_rows(joined(parts_of([batch([*came, *moved])], shape=SENT)), SENT)
    assert held(made.rows) == Counter((0, number + 1, None, number) for number in range(6))
    assert made.not_removed.ambiguous == 0


def test_events_in_pieces_change_the_same_rows_whatever_a_merge_has_together() -> None:
    """Each row of an event changes once; the key of one may be that of another before, which is in another piece or not."""
    for seed in range(times(6, 100)):
        chance, rows, changes = random.Random(seed), dict[int, Row](), list[Change]()
        for event in range(12):
            before = dict(rows)
            for number, key in enumerate(chance.sample(range(6), 3)):
                old, name = before.get(key), chance.choice(["a", "b", None])
                new_key = chance.choice([key, *(one for one in range(6) if one not in rows)])
                change = Change("insert", None, (0, key, name, 1), at(1, event), number, chance.randrange(2))
                if old is not None:
                    del rows[key]
                    new = None if chance.random() < 0.3 else (0, new_key, name, old[3])
                    change = replace(change, op="update" if new else "delete", before=old, after=new, unsent=FIELDS[2:])
                    change = replace(change, absent=("amount",) if new else ())
                elif key in rows:
                    continue
                if change.after is not None:
                    rows[change.after[1]] = change.after
                changes.append(change)
        wanted = Counter(rows.values())
        assert held(living_rows(joined(parts_of([batch(changes)], shape=SENT)), SENT).rows) == wanted, seed
        cut = next(n for n, one in enumerate(changes) if one.position.position > seed % 11)
        begun = merged(stored([]), [batch(changes[:cut])], shape=SENT, fold_absent=True)
        assert held(merged(begun, [batch(changes[cut:])], shape=SENT, fold_absent=True, shares=3)) == wanted, seed


def hostile(seed: int) -> list[Change]:
    """Events of anything at all, each with a few changes in two pieces."""
    chance, changes, rows = random.Random(seed), list[Change](), list[Row]()
    for event in range(10):
        for number in range(chance.randint(1, 4)):
            source = chance.choice([by_anything, by_key, None])
            if source is not None:
                change = source(chance, rows)
            else:
                old, new = chance.choice([*rows, some(chance)]) if rows else some(chance), some(chance)
                images = [("insert", None, new), ("delete", old, None), ("update", old, new)]
                change = chance.choice([Change(*one, at(1, 0)) for one in images])
            place = {"position": at(1, event), "row_number": number, "kafka_partition": chance.randrange(2)}
            changes.append(replace(change, **place, kafka_offset=len(changes)))  # type: ignore[arg-type]
            rows = [*rows, change.after][-6:] if change.after is not None else rows[-6:]
    return changes


@pytest.mark.more
@pytest.mark.parametrize("seed", [37, 80, 100, 115, *range(200, 200 + times(4, 100))])
def test_hostile_events_in_pieces_make_the_same_rows_whatever_a_merge_has_together(seed: int) -> None:
    changes = hostile(seed)
    rows = held(living_rows(joined(parts_of([batch(changes)], shape=SENT)), SENT).rows)
    versions = advanced(NOTHING, [batch(changes)], shape=VERSIONS)
    assert held(versions.filter(versions["_valid_to"].is_null())) == rows
    for event in (3, 5, 7):
        cut = next(number for number, one in enumerate(changes) if one.position.position == event)
        begun = merged(stored([]), [batch(changes[:cut])], shape=SENT, fold_absent=True)
        end = merged(begun, [batch(changes[cut:])], shape=SENT, fold_absent=True, shares=1 + 2 * (event % 2))
        assert held(end) == rows, event


def test_whole_rows_that_an_event_changes_twice_over_two_pieces() -> None:
    """``REPLACE`` with one unique value twice. If all rows are known, their count is right in every order of the pieces."""
    first, second, third = (0, 1, None, 1), (0, 1, "a", 1), (0, 1, "b", 1)
    came = Change("insert", None, first, at(1, 1))
    for piece in (0, 1):
        twice = [
            Change("update", first, second, at(1, 9), 0, piece),
            Change("update", second, third, at(1, 9), 1, 1 - piece),
        ]
        made = living_rows(joined(parts_of([batch([came, *twice])], shape=SENT)), SENT)
        assert held(made.rows) == Counter([third])
        assert made.not_removed == ALL_REMOVED
        later = Change("delete", third, None, at(1, 10), unsent=FIELDS[2:])
        assert not living_rows(joined(parts_of([batch([came, *twice, later])], shape=SENT)), SENT).rows.num_rows


def test_a_part_of_a_row_means_none_that_another_piece_of_its_event_has_brought() -> None:
    came = Change("insert", None, (0, 1, "a", 1), at(1, 1), 0, 0)
    gone = Change("delete", (0, 1, "a", 1), None, at(1, 1), 1, 1, unsent=FIELDS[2:])
    later = Change("update", (0, 1, "a", 1), (0, 1, "b", 1), at(1, 2), unsent=FIELDS[2:], absent=("amount",))
    made = living_rows(joined(parts_of([batch([came, gone, later])], shape=SENT)), SENT)
    begun = merged(stored([]), [batch([came, gone])], shape=SENT, fold_absent=True)
    assert (
        held(merged(begun, [batch([later])], shape=SENT, fold_absent=True))
        == held(made.rows)
        == Counter([(0, 1, "b", 1)])
    )
    assert made.not_removed == NotRemoved(unmatched=1)


def test_a_row_that_an_event_changes_twice_in_one_of_several_pieces() -> None:
    old, other = (0, 1, None, 1), (1, 5, "a", None)
    came = [Change("insert", None, row, at(1, number)) for number, row in enumerate((old, other))]
    twice = [
        Change("update", old, (0, 1, "x", 1), at(1, 9), 0, 0, unsent=FIELDS[2:], absent=("world", "id.no", "amount")),
        Change(
            "update",
            (0, 1, "x", 1),
            (0, 2, "x", 1),
            at(1, 9),
            1,
            0,
            unsent=FIELDS[2:],
            absent=("world", "name", "amount"),
        ),
        Change("delete", other, None, at(1, 9), 0, 1, unsent=FIELDS[2:]),
    ]
    made = living_rows(joined(parts_of([batch([*came, *twice])], shape=SENT)), SENT)
    assert held(made.rows) == Counter([(0, 2, "x", 1)])


def test_an_update_without_an_old_row_finds_the_only_one() -> None:
    one, other = (0, 1, "a", 1), (0, 1, "b", 1)
    came, change = Change("insert", None, one, at(1, 1)), Change("update", None, other, at(1, 2))
    made = living_rows(joined(parts_of([batch([came, came, change])], shape=SENT)), SENT)
    assert held(made.rows) == Counter([one, other])
    several = [came, Change("insert", None, (2, 2, None, None), at(1, 1), 1), change]
    made = living_rows(joined(parts_of([batch(several)], shape=SENT)), SENT)
    assert (made.rows.num_rows, places(made)) == (2, [(at(1, 2), 0)])


def test_null_that_may_not_have_been_sent_is_null_or_ambiguous() -> None:
    """PostgreSQL's old rows in messages of DRS, which have NULL beside the columns of the replica identity."""
    shape = replace(SENT, null_if_unsent=True)
    rows: list[Row] = [(0, 1, "a", 1), (0, 1, None, None), (0, 2, "b", None)]
    came = [Change("insert", None, row, at(1, number)) for number, row in enumerate(rows)]
    gone = [Change("delete", (0, number, None, None), None, at(1, 9 + number)) for number in (1, 2, 3)]
    made = living_rows(joined(parts_of([batch([*came, *gone])], shape=shape)), shape)
    assert held(made.rows) == Counter([rows[0], rows[2]])
    assert (places(made), made.not_removed.unmatched) == ([(at(1, 11), 0)], 1)


@pytest.mark.parametrize("file", [0, 7])
def test_an_old_row_of_ticdc_leaves_no_null_out(file: int) -> None:
    """Two rows differ in a NULL. Canal's ``old`` fits both; a change at the timestamp of its transaction means the one."""
    rows: list[Row] = [(0, 1, "a", 1), (0, 1, None, 1)]
    came = [Change("insert", None, row, at(file, 1 + number)) for number, row in enumerate(rows)]
    update = Change("update", rows[0], (0, 1, "a", 2), at(file, 9))
    made = living_rows(joined(parts_of([batch([*came, update])], shape=CHANGED)), CHANGED)
    assert held(made.rows) == Counter([(0, 1, "a", 1 if file else 2), rows[1]])
    assert len(places(made)) == (1 if file else 0)


def test_rows_that_partial_changes_cannot_mean_are_shared_out() -> None:
    """Whole rows go by their hashes; those that a partial change may find or make are in one share, with all their changes."""
    unsent = FIELDS[2:]
    came = [Change("insert", None, (0, number, "a", None), at(1, number)) for number in range(100)]
    moved = Change("update", (0, 7, "a", None), (0, 200, None, None), at(2, 0), unsent=unsent, absent=unsent)
    gone = Change("delete", (0, 200, "a", None), None, at(2, 1))
    parts = parts_of([batch([*came, moved]), batch([gone])], shape=SENT, hashed=True)
    shares = list(shared(parts, parts, 4))
    assert min(share.count for share in shares) > 10
    made = [living_rows(share, SENT) for share in shares]
    assert sum((held(one.rows) for one in made), Counter()) == Counter((0, n, "a", None) for n in range(100) if n != 7)
    assert sum((one.not_removed for one in made), ALL_REMOVED) == ALL_REMOVED


def test_rows_before_a_truncation_are_not_meant() -> None:
    one, other = (0, 1, "a", 1), (0, 1, "b", 1)
    changes = [
        Change("insert", None, one, at(1, 1)), Change(TRUNCATE, None, None, at(1, 2)), Change("insert", None, other, at(1, 3)),
        Change("delete", other, None, at(1, 4), unsent=FIELDS[2:]),
    ]  # fmt: skip
    found = advanced(NOTHING, [batch(changes)], shape=VERSIONS)
    assert sorted((row["name"], row["_valid_to"].second) for row in found.to_pylist()) == [("a", 42), ("b", 44)]
