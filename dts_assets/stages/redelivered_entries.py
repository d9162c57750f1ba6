"""Changes that were delivered before, found among the entries of one Kafka partition by their identity alone.

An entry holds the rows of one binlog event (of its Kafka partition), so entries are compared and not rows: the same lineage and
position, the same GTID, table and number of rows. Several events of a transaction that was compressed share a place: nothing
inside one entry set is a copy, and equal entries have the same number there (:func:`_numbers_in_sets`). After a failover another
server's binlog may tell a transaction again at positions of its own; there the same GTID and the same place among the
transaction's events make an entry the same. In PostgreSQL's log several changes may share a place: there copies have the same
time, and the same number among the changes at their place, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.model.lineages import LineageRule
from dts_assets.model.lives import Stretch
from dts_assets.stages.entry_columns import file_numbers
from dts_assets.stages.entry_lineages import entry_lineages
from dts_assets.stages.message_contents import copied_messages
from dts_assets.stages.reassembly import SETS
from dts_assets.wire.columns.buffers import rows_by_code
from dts_assets.wire.format import ENTRIES, WireFormat

KEY_COLUMNS = (
    "last_offset", "entry_number", "message_type", "event_time", "gtid", "seq_id", "file_name", "position",
    "database", "schema", "table", "rows", "shard", "sequence",
)  # fmt: skip
"""The columns of ``entries`` that identity rests on; payloads are not read."""

TRANSPORT, REREAD = "transport", "reread"
"""Reasons: a repeated ``ps`` header, and a binlog that was read again."""

EntryKeys: TypeAlias = npt.NDArray[np.int64]
"""One number per entry of a Kafka partition, of its offset and its place in the entry set."""

_ENTRY_BITS = 24
"""Bits of a key for the place in an entry set.

A set of 10 MB has far fewer than 16 million entries, and offsets stay below 2 to the 39. Where rows are apart, the offset alone
tells entries apart.
"""

_Numbers = npt.NDArray[np.int64]


def entry_keys(last_offsets: pa.Array, entry_numbers: pa.Array) -> EntryKeys:
    """Return one number per entry of a Kafka partition."""
    numbers = entry_numbers.to_numpy() & ((1 << _ENTRY_BITS) - 1)
    keys: EntryKeys = (last_offsets.to_numpy() << _ENTRY_BITS) | numbers
    return keys


def offsets_of_keys(keys: EntryKeys) -> EntryKeys:
    """Return the offsets of entries from their keys."""
    offsets: EntryKeys = keys >> _ENTRY_BITS
    return offsets


def keys_of(found: pa.Table) -> EntryKeys:
    """Return the keys of entries that were found to be delivered before."""
    return entry_keys(found["last_offset"].combine_chunks(), found["entry_number"].combine_chunks())


COPY_COLUMNS = (*KEY_COLUMNS, "payload")
"""The columns of ``entries`` by which copies are found where contents are compared, too."""

Contents: TypeAlias = Callable[[pa.Array], npt.NDArray[np.int64]]
"""The digests of what entries say, from their payloads."""

_CONTENT = "content"


def copies_in_cell(
    own: tuple[Sequence[Stretch], Iterable[pa.RecordBatch]],
    earlier: Iterable[tuple[Sequence[Stretch], Iterable[pa.RecordBatch]]],
    rules: Mapping[str, LineageRule],
    wire: WireFormat,
) -> pa.Table:
    """Return the entries of a cell that are copies of messages before them.

    These stand in ``earlier`` cells, oldest first, or in the cell itself. All are batches of COPY_COLUMNS, with the stretches
    of growing ids of their cell. The columns are those of :func:`find_redelivered`.
    """
    stretches, batches = own
    mine = _with_ids((batch for batch in batches), None)
    ids = pc.unique(mine["position"])
    before = [(some, _with_ids(more, ids)) for some, more in earlier]
    copies, firsts = copied_messages((stretches, mine), [one for one in before if one[1].num_rows], wire)
    lineages = entry_lineages(copies, rules)
    positions = pc.fill_null(copies["position"], 0).to_numpy()
    places = {"lineage": lineages, "file": np.zeros(len(positions), np.int64), "position": positions}
    return _result(copies, firsts, places)


def copies_by_transaction(
    own: Iterable[pa.RecordBatch], earlier: Iterable[Iterable[pa.RecordBatch]], wire: WireFormat
) -> pa.Table:
    """Return the entries of a cell that stand in ``earlier`` cells (oldest first) or before in itself.

    They are told by transactions: such entries have the time of their transaction in place of a position, and no file. Other
    entries are passed over. A transaction changes a key once by each operation. Without a key nobody can tell equal rows that
    follow one another from copies: these are several. All are batches of COPY_COLUMNS, and the columns are those of
    :func:`find_redelivered`.
    """
    mine = _of_transactions(_with_ids(own, None))
    positions = pc.unique(mine["position"])
    before = [_of_transactions(_with_ids(batches, positions)) for batches in earlier]
    entries = pa.RecordBatch.from_struct_array(pa.concat_tables([*before, mine]).to_struct_array().combine_chunks())
    what = [_codes(entries[name]) for name in ("shard", "database", "schema", "table")]
    tables, positions_of = _dense(what), entries["position"].to_numpy()
    same = _dense([tables, positions_of, wire.contents(entries["payload"])])
    order = np.argsort(tables, kind="stable")
    places = np.arange(len(order))
    begins = np.append(True, same[order][1:] != same[order][:-1])[: len(order)]
    several = np.zeros(len(order), np.int64)
    several[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    several[wire.has_key(entries["payload"])] = 0
    kept = _first_of(np.ones(len(order), np.bool_), [same, several])
    rows = np.flatnonzero(kept < places)
    rows = rows[rows >= entries.num_rows - mine.num_rows]
    nothing = np.zeros(len(rows), np.int64)
    found = {"lineage": nothing.astype(np.int32), "file": nothing, "position": positions_of[rows]}
    return _result(entries.take(pa.array(rows)), entries.take(pa.array(kept[rows])), found)


def _of_transactions(entries: pa.Table) -> pa.Table:
    return entries.filter(pc.and_(entries["file_name"].is_null(), entries["position"].is_valid()))


def _with_ids(batches: Iterable[pa.RecordBatch], ids: pa.Array | None) -> pa.Table:
    """Return the DML entries, of an earlier cell only those with one of some ids, in offset order."""
    found = [relevant(batch.select(COPY_COLUMNS), positions=ids, gtids=None) for batch in batches]
    table = pa.Table.from_batches(found, _COPY_SCHEMA) if found else _COPY_SCHEMA.empty_table()
    return table.sort_by([("last_offset", "ascending"), ("entry_number", "ascending")])


def redelivered_in_cell(
    own: Iterable[pa.RecordBatch],
    earlier: Iterable[Iterable[pa.RecordBatch]],
    rules: Mapping[str, LineageRule],
    *,
    trust_gtids: bool,
    by_gtid: bool,
    said: Contents | None = None,
) -> pa.Table:
    """Return the entries of a cell that stand in ``earlier`` cells (oldest first) or before in itself.

    All are batches of KEY_COLUMNS; of the earlier cells only entries that can be the same as one of the cell are kept. ``said``
    tells what entries say, where each row of an event is an entry; then the batches are of COPY_COLUMNS.
    """
    mine = _of_batches((relevant(batch, positions=None, gtids=_NO_TEXTS) for batch in own), said)
    in_log = bool(pc.any(mine["schema"].is_valid()).as_py())
    if not (by_gtid or in_log):
        mine = mine.filter(pc.equal(mine["message_type"], "DML"))
    positions = pc.unique(mine["position"])
    gtids = pc.unique(mine["gtid"]).drop_null() if by_gtid else None
    before = [
        _of_batches((relevant(batch, positions=positions, gtids=gtids, all_begins=in_log) for batch in batches), said)
        for batches in earlier
    ]
    return find_redelivered(before, mine, rules, trust_gtids=trust_gtids, by_gtid=by_gtid, rows_apart=said is not None)


def _ordinals_in_events(entries: pa.RecordBatch) -> Sequence[_Numbers]:
    """Return the numbers and the ids of rows that come apart."""
    return entries["entry_number"].to_numpy().astype(np.int64), pc.fill_null(entries["seq_id"], 0).to_numpy()


def _numbers_at_places(entries: pa.RecordBatch, shards: _Numbers, files: _Numbers) -> _Numbers:
    """Return the number of each change among those that follow one another at its place, behind a BEGIN.

    A message that is sent again, with a ``seqId`` or ``ps`` that was passed, interrupts nothing: its changes have their former
    numbers, or those of a telling of their own.
    """
    positions, ids, sequences = (
        pc.fill_null(entries[name], -1).to_numpy().astype(np.int64) for name in ("position", "seq_id", "sequence")
    )
    in_message = sequences << _ENTRY_BITS | entries["entry_number"].to_numpy()
    keys = np.where(ids > 0, ids, np.where(sequences >= 0, in_message, -1))
    is_change = np.asarray(pc.equal(entries["message_type"], "DML"))
    found = np.zeros(len(shards), np.int64)
    for _, rows in rows_by_code(shards):
        mine = keys[rows]
        passed = (mine >= 0) & (mine <= np.maximum.accumulate(np.append(-1, mine))[:-1])
        for telling in (rows[~passed], rows[passed]):
            goes_on = is_change[telling[1:]] & is_change[telling[:-1]]
            for column in (files, positions):
                goes_on &= column[telling[1:]] == column[telling[:-1]]
            places = np.arange(len(telling))
            found[telling] = places - np.maximum.accumulate(
                np.where(np.append(False, goes_on)[: len(telling)], 0, places)
            )
    numbers: _Numbers = found[_first_of(is_change & (keys >= 0), [shards, files, positions, keys])]
    return numbers


def _numbers_in_sets(
    entries: pa.RecordBatch, chosen: npt.NDArray[np.bool_], place: Sequence[_Numbers], what: Sequence[_Numbers]
) -> _Numbers:
    """Return the number of each chosen entry among the entries of its set that are equal.

    Entries are equal by ``place`` and ``what``. Where several entries of a set are at one place, the events of that place go on
    in the next set by ``sequence``, if it begins with such an entry. Elsewhere each set counts for itself: a task that reads an
    event again begins a message with it. Where a set has a BEGIN, or goes back in its binlog, its entries are counted anew: from
    there a server may tell again what the set has already.
    """
    found = np.zeros(len(chosen), np.int64)
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return found
    offsets, numbers, sequences = (
        pc.fill_null(entries[name], -1).to_numpy().astype(np.int64)[rows]
        for name in ("last_offset", "entry_number", "sequence")
    )
    at = _dense([column[rows] for column in place])
    new = np.append(True, offsets[1:] != offsets[:-1])
    several = ~new & (at == np.append(-1, at[:-1]))
    if not several.any():
        return found
    follows = (sequences >= 0) & (sequences == np.append(-2, sequences[:-1]) + 1) & (numbers == 0)
    goes_on = follows & (at == np.append(-1, at[:-1])) & np.isin(at, at[several])
    begun = np.cumsum(np.asarray(pc.equal(entries["message_type"], "BEGIN")))[rows]
    again = np.append(False, begun[1:] != begun[:-1]) | _goes_back([column[rows] for column in place])
    sets = np.cumsum((new & ~goes_on) | again)
    codes = _dense([sets, at, *(column[rows] for column in what)])
    order = np.argsort(codes, kind="stable")
    places = np.arange(len(order))
    begins = np.append(True, codes[order][1:] != codes[order][:-1])
    found[rows[order]] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return found


def _goes_back(place: Sequence[_Numbers]) -> npt.NDArray[np.bool_]:
    """Tell which entries stand before the one before them in their binlog.

    ``place`` has their shards, GTIDs, lineages, files and positions.
    """
    shards, *_, files, positions = place
    found = np.zeros(len(shards), np.bool_)
    for _, rows in rows_by_code(shards):
        file, position = files[rows], positions[rows]
        found[rows[1:]] = (file[1:] < file[:-1]) | ((file[1:] == file[:-1]) & (position[1:] < position[:-1]))
    return found


def _of_batches(batches: Iterable[pa.RecordBatch], said: Contents | None) -> pa.Table:
    """Return the columns that identity rests on; payloads give way to what they say."""
    found = []
    for batch in batches:
        contents = pa.array(np.zeros(batch.num_rows, np.int64) if said is None else said(batch["payload"]))
        found.append(batch.select(KEY_COLUMNS).append_column(_CONTENT, contents))
    return pa.Table.from_batches(found) if found else _NO_ENTRIES


def relevant(
    entries: pa.RecordBatch, *, positions: pa.Array | None, gtids: pa.Array | None, all_begins: bool = False
) -> pa.RecordBatch:
    """Return the entries that identity is about: DML, and BEGIN where transactions are compared.

    ``positions`` and ``gtids`` keep those of an earlier window that can be the same as any of the window in question.
    With ``all_begins`` every BEGIN is kept, too: it shows where changes are told again.
    """
    wanted = pc.is_in(entries["message_type"], value_set=pa.array(["DML"] if gtids is None else ["BEGIN", "DML"]))
    if positions is not None:
        same = pc.is_in(entries["position"], value_set=positions)
        wanted = pc.and_(wanted, same if gtids is None else pc.or_(same, pc.is_in(entries["gtid"], value_set=gtids)))
    if all_begins:
        wanted = pc.or_kleene(wanted, pc.equal(entries["message_type"], "BEGIN"))
    return entries.filter(pc.fill_null(wanted, False))


def find_redelivered(
    earlier: Sequence[pa.Table],
    own: pa.Table,
    rules: Mapping[str, LineageRule],
    *,
    trust_gtids: bool,
    by_gtid: bool,
    rows_apart: bool = False,
) -> pa.Table:
    """Return the DML entries of ``own`` that stand in ``earlier`` or before in ``own``.

    A row has the entry's ``last_offset`` and ``entry_number``, ``kept_offset`` (where the copy stands that is kept), its
    ``lineage``, ``file``, ``position`` and ``rows``, ``database``, ``schema``, ``table``, and the ``reason``.

    ``earlier`` are tables of KEY_COLUMNS with digests of what entries say, oldest first.

    ``trust_gtids`` is False where the vendor made the GTIDs up: it may give a re-read transaction another one. ``rows_apart``
    says that each row of an event is an entry: copies of it say the same, under its id or under its number in the event. Where a
    message of the event was lost or damaged those behind it have other numbers, and a task that restarts may give other ids.
    """
    order = [("last_offset", "ascending"), ("entry_number", "ascending")]
    table = pa.concat_tables([one.sort_by(order) for one in (*earlier, own)])
    entries = pa.RecordBatch.from_struct_array(table.to_struct_array().combine_chunks())
    is_dml = np.asarray(pc.equal(entries["message_type"], "DML"))
    lineages = entry_lineages(entries, rules)
    files = file_numbers(entries["file_name"]).to_numpy()
    positions = pc.fill_null(entries["position"], 0).to_numpy()
    what = [_codes(entries[name]) for name in ("shard", "database", "schema", "table")]
    what.append(pc.fill_null(entries["rows"], -1).to_numpy().astype(np.int64))
    if rows_apart:
        what.append(entries[_CONTENT].to_numpy())
    elif (in_log := is_dml & np.asarray(entries["schema"].is_valid())).any():
        times = entries["event_time"].view(pa.int64()).fill_null(0).to_numpy()
        what += [np.where(in_log, one, 0) for one in (times, _numbers_at_places(entries, what[0], files))]
    gtids = _codes(entries["gtid"])
    placed = is_dml & ((files > 0) | (positions > 0))
    same, among = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
    if not rows_apart:
        in_sets = is_dml & ~np.asarray(entries["schema"].is_valid())
        place = [what[0], gtids, lineages.astype(np.int64), files, positions]
        same = _numbers_in_sets(entries, in_sets, place, what)
        among = np.where(is_dml, _numbers_in_sets(entries, in_sets, place, []) + 1, 0)
    # One binlog has one place for a transaction, so that a GTID tells as much as the lineage where it is the server's own.
    numbered = np.asarray(entries["gtid"].is_valid()) & trust_gtids
    of = np.where(numbered, gtids, -1 - lineages.astype(np.int64))
    kept = np.arange(len(entries))
    in_event = _ordinals_in_events(entries) if rows_apart else [np.zeros(len(entries), np.int64)]
    for one in in_event:
        kept = np.minimum(kept, _first_of(placed, [*what, same, of, files, positions, one]))
    if by_gtid and trust_gtids:
        copies = _copies(gtids, ~is_dml, _dense([files, positions]))
        # One server may compress a transaction, whose events then have one place, and another one may not.
        ordinals = _ordinals(_dense([gtids, what[0], copies]), _dense([files, positions, among]))
        # Places are counted from BEGIN, so a copy that came without it cannot be compared.
        comparable = is_dml & (copies >= 0) & np.asarray(entries["gtid"].is_valid())
        kept = np.minimum(kept, _first_of(comparable, [*what, gtids, ordinals, in_event[0]]))
    while (further := kept[kept] < kept).any():
        kept = np.where(further, kept[kept], kept)
    rows = np.flatnonzero(kept < np.arange(len(kept)))
    rows = rows[rows >= entries.num_rows - own.num_rows]
    places = {"lineage": lineages[rows], "file": files[rows], "position": positions[rows]}
    return _result(entries.take(pa.array(rows)), entries.take(pa.array(kept[rows])), places)


def _result(mine: pa.RecordBatch, theirs: pa.RecordBatch, places: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    """Return the rows about some entries, given with the copies of them that are kept."""
    own = ("last_offset", "entry_number", "rows", "database", "schema", "table")
    same_number = pc.fill_null(pc.equal(mine["sequence"], theirs["sequence"]), False)
    reason = pc.if_else(same_number, TRANSPORT, REREAD)
    return pa.table(
        {name: mine[name] for name in own} | {**places, "kept_offset": theirs["last_offset"], "reason": reason}
    )


def _first_of(chosen: npt.NDArray[np.bool_], columns: Sequence[_Numbers]) -> _Numbers:
    """Return for each chosen row the first one with equal columns, for others the row itself."""
    found = np.arange(len(chosen))
    rows = np.flatnonzero(chosen)
    if len(rows):
        codes = _dense([column[rows] for column in columns])
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        found[rows] = rows[first[inverse]]
    return found


def _dense(columns: Sequence[_Numbers]) -> _Numbers:
    """Return one number per row, equal exactly where all columns are equal.

    The numbers are ordered as the columns are, the first column first.
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        combined = codes * (int(inverse.max(initial=0)) + 1) + inverse
        _, codes = np.unique(combined, return_inverse=True)
    return codes


def _copies(gtids: _Numbers, begins: npt.NDArray[np.bool_], places: _Numbers) -> _Numbers:
    """Return the copy of its transaction to which each entry belongs.

    A copy is named by the place of its BEGIN, -1 without one.

    One binlog has a transaction at one place, so a restart tells the same copy again and another server another one.
    """
    order = np.lexsort((np.arange(len(gtids)), gtids))
    begun = np.where(begins[order], np.arange(len(order)), -1)
    latest = np.maximum.accumulate(begun) if len(order) else begun
    inside = (latest >= 0) & (gtids[order][np.maximum(latest, 0)] == gtids[order])
    found = np.full(len(gtids), -1, np.int64)
    found[order] = np.where(inside, places[order][np.maximum(latest, 0)], -1)
    return found


def _ordinals(groups: _Numbers, places: _Numbers) -> _Numbers:
    """Return the number of each row's place among the distinct places of its group, in their order."""
    pairs = _dense([groups, places])
    first = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, groups, pairs)
    return pairs - first[groups]


def _codes(column: pa.Array) -> _Numbers:
    encoded = column.dictionary_encode()
    codes: _Numbers = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    return codes + 1


_DECLARED = {field.name: field for schema in (SETS, ENTRIES) for field in schema}
_COPY_SCHEMA = pa.schema([_DECLARED[name] for name in COPY_COLUMNS])
_NO_ENTRIES = pa.schema([*(_DECLARED[name] for name in KEY_COLUMNS), pa.field(_CONTENT, pa.int64())]).empty_table()

_NO_TEXTS = pa.array([], pa.string())
