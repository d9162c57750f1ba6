"""The state of an open window: reading goes on from it as if it had never stopped, and bytes of anything else are refused."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dts_assets.model.columns import ColumnShape
from dts_assets.model.offsets import OffsetRange
from dts_assets.model.tables import TableId
from dts_assets.stages import entry_facts
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.window_state import MOST_BYTES, MOST_STORED_BYTES, STATE_VERSION, WindowState
from dts_assets.wire.format import Checkpoint, DecodedEntries, TableShape
from tests.stages.deliveries import SERVER, Entry, Message, Topic, entries_of, sets_of, topics
from tests.tiers import examples

T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)
ORDERS = TableShape(TableId("shopdb", "", "orders"), (ColumnShape("id", "int(11)", True),))
NEVER = OffsetRange(0, 0)
SQLS = (
    "ALTER TABLE orders FROBNICATE",
    "ALTER TABLE shopdb.orders DROP COLUMN x; RENAME TABLE a TO b",
    "TRUNCATE TABLE shopdb.orders",
)


def decoded(topic: Topic, sets: Sequence[Message]) -> DecodedEntries:
    """The entries of some sets with every column that is taken note of."""
    held = [entry for one in sets for entry in one.entries]
    changes = [entry.kind == "DML" for entry in held]
    table = {"database": "shopdb", "schema": None, "table": "orders"}
    columns = {
        "event_time": pa.array([T0 + timedelta(seconds=one.number) for one in held], pa.timestamp("us", tz="UTC")),
        "rows": pa.array(
            [one.position % 7 if change else None for one, change in zip(held, changes, strict=True)], pa.int32()
        ),
        **{
            name: pa.array([value if change else None for change in changes], pa.string())
            for name, value in table.items()
        },
        "properties": pa.array(
            [[("sql", SQLS[one.position // 1000 % len(SQLS)])] if one.kind == "DDL" else None for one in held],
            pa.map_(pa.string(), pa.string()),
        ),
    }
    batch = entries_of(topic, sets).drop_columns(["event_time"])
    batch = pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])
    checkpoints = tuple(
        Checkpoint(row, "bin.000003", one.position, f"{SERVER}:1-{one.synced}", not topic.gtids)
        for row, one in enumerate(held)
        if one.kind == "CHECKPOINT"
    )
    return DecodedEntries(batch, (), (ORDERS,) if any(changes) else (), checkpoints, {"field 99": 1} if held else {})


def see(state: WindowState, topic: Topic, messages: Sequence[Message]) -> None:
    """Show some messages to all trackers, as the reading of a window does."""
    state.tally.messages += len(messages)
    state.forms.see(b'{"op": "c", "source": {}}' if one.sequence % 3 else b"no message" for one in messages)
    state.delivery.see_messages(
        pa.array([one.offset for one in messages], pa.int64()),
        pa.RecordBatch.from_pydict(
            {
                "shard": pa.array([""] * len(messages), pa.string()),
                "sequence": pa.array([one.sequence for one in messages], pa.int64()),
            }
        ),
    )
    sets = [one for one in messages if one.entries]
    if sets:
        found = decoded(topic, sets)
        columns = EntryColumns.of(found.batch, sets_of(sets), found.checkpoints)
        state.facts.add(found, columns)
        state.delivery.see_entries(columns)
        state.runs.see(columns)


def results(state: WindowState) -> tuple[Any, ...]:
    """All that the ledger keeps."""
    runs, delivery = state.runs, state.delivery
    facts = {name: getattr(state.facts, name) for name in state.facts.__slots__ if name != "unknown"}
    found = (state.tally, facts, runs.runs(), runs.checkpoints(), runs.statements(), delivery.result())
    return (*found, list(delivery.problems()), state.forms)


def read(topic: Topic, messages: Sequence[Message], cuts: Sequence[int] = (), *, stored: bool = False) -> WindowState:
    """The state after some messages, shown in parts; ``stored`` between two of them as bytes."""
    state = WindowState.begin(OffsetRange(0, len(messages)))
    bounds = sorted({0, len(messages), *(min(cut, len(messages)) for cut in cuts)})
    for start, end in pairwise(bounds):
        see(state, topic, messages[start:end])
        if stored:
            state = WindowState.of_bytes(state.to_bytes() or b"")
    return state


@given(topics(), st.lists(st.integers(0, 60), max_size=5), st.sets(st.integers(0, 60), max_size=2))
@examples(300)
def test_a_window_read_in_parts_is_as_if_read_in_one_go(topic: Topic, cuts: list[int], lost: set[int]) -> None:
    for sent in topic.partitions:
        messages = [one for number, one in enumerate(sent) if number not in lost]
        assert results(read(topic, messages, cuts, stored=True)) == results(read(topic, messages))


STREAM = Topic(
    [
        [
            Message(0, 1, (Entry("BEGIN", 1, 1000), Entry("DML", 1, 1010, 0)), 1, 0),
            Message(1, 2, (Entry("COMMIT", 1, 1900), Entry("DDL", 2, 2000)), 1, 0),
            Message(2, 4, (Entry("BEGIN", 4, 4000), Entry("DML", 4, 4010, 0), Entry("COMMIT", 4, 4900)), 1, 0),
            Message(3, 5, (Entry("CHECKPOINT", 0, 4900, synced=4), Entry("DML", 5, 5010, 0)), 1, 0),
            Message(5, 1, (Entry("BEGIN", 4, 4000), Entry("DML", 4, 4010, 0), Entry("BEGIN", 6, 6000)), 1, 0),
        ]
    ],
    transactions=6,
    restarted=True,
)
"""A little of everything: holes, a restart, a statement, a CHECKPOINT, transactions that are not whole."""


def a_state() -> bytes:
    found = read(STREAM, STREAM.partitions[0]).to_bytes()
    assert found is not None
    return found


KEPT = (
    "3U~pXR?Tl4MHHWny@dlOB9tROM5r7h;e3_!gb=8LLlNqcgEiiLYfn9%-R{gL3J57~8mWLPB^Fnt(C(L=1dvMaRdTN2gp^CqJ@XHQw=;I^P(|AGvfBB2AHVs%"
    "-<uy2MLFMmly^Z&+5%}O8*QHh8F(RWbwMaejzq+HW4wX<c`u?N6^aRPC$mF`h9SclCP;eMFBZvAMgfEpT>Q^AD8nNy@@)F}#L2<<ydNoYU<@=Qp!<Vn=yyPv"
    "LE=$I$(Q843`0YI@}1bFidHkn$Fa}f&YU(Cn8)nXX+NXQ<j@7j$8fYU`;X}@+SdS0@FsOSlKkenydf1;pi!`nig6@p5O7SB44pPOod6S6+Zo4n5j+xmj6)?4"
    "e2KaG;>GOz)5*3*OEK;E^!gIi>mFUcv2dgA(1m&(>I-YIw6x%S{1K&V%ZqC(tBW`53(JGCCE2t3m%FLFx_oUeIOLdvR1H{16#hA5-~5!OvP}b!z596kO%B_6"
    "fnk$Mzy&{Wo2kUGyL8_yr+(<-H6p}3>I%8H9Shop$ILzQL)Kz~@`l<BAVVmw*XtjqOg1{Od2)G7m4CBHbcDYldb!7dyS247D~E2NHjyD#R{SBxd*$NFDOV5{"
    ")XMZ9xVvd2LZI$$97aNJ7uklc?Cn3)<Gn|R9t#l=-}CU&$pNS513S@6{mP5VtGJlQzqw#&_AAzfzsR*)zrO$V-A@Mk)MV<HXIlda;W~s3=2~%a*QXzpyXUkC"
    "h@w164bhLY5CWh|&Sb`*?48b+vDCM&C1@%VW%n1k9ZU!+_jVEu)qZNAnK1eCyPTcR-+<R1?SQU_<E+hEZKS6LIuAlvXMQC0C^f`2kR!ga1Sp%^8z6x+FWB5K"
    "2e$Ql5zUl9{2x5)Tm~)&@2$VDLX^e0pqsAX$3yP78Ud#c$gSK3&X9PU57P~%+DzO}P`5%wo`7)e%-p4XV5m(rt?f*9SP+0~C575!O`FxKUagMq-$q8?i$I{0"
    "-u{mxZkUbM#TwGbtP7Qtx3B~Y;j!}&zZj3S#>^&(<3~bSNg*Uy=f-A5Td9nk&m1c3G7{w;l@$HIB=3$R&?K)Wm>sw?W5KT)BRf|?v|i$lDzB#MdK4Qmb#@Z_"
    "0f=qQ%PaX^E#Y@Ac-^l(@_Pa3G@ufD?DLp|r%;>=US27hl@ig+_Fs>tVxl>oj;1n-#vXM25E=zO#7N~86meA(L2JOYZTo^&9F2sdp=p4dXXi5!b(`3!O6p%V"
    "DPqFHD4qmm50RniEk)lXaT}XgkM#T2Out$kNQWwHMc^LCg}@!B9*ww?dq2-qPVbD~B{koxO%c0RM%ZtzeCK=L*NWoC*HMirS^M<!TVLEhInW>*F9f^AJ?uU5"
    "xtTRhkK_guaBU2H{7+Kd_vHgkmfdsNJxe-FxN<Ai<tev@0#KcseiX_b?DuD}q|DvTT|a6nFXF_M+?l?vvs6DY<jxapx;y$MM9zstChQ@)K=+?uq`L`iQC4=d"
    "@uDL>&d0)ZmKV>?b;@PWtS6oycIEv6_wmu_HmI^QkE!D2**p3Sn(!@)y0tIwe0AIY4|PLK>;"
)
"""A state of version 10, as it was stored once. It must be readable, and mean the same, for as long as that is the version."""


def test_a_state_stored_earlier_is_read_as_it_was() -> None:
    kept = base64.b85decode(KEPT)
    assert kept[0] == STATE_VERSION, "keep a state of the new version here, made by a_state()"
    state = WindowState.of_bytes(kept)
    assert results(state) == results(read(STREAM, STREAM.partitions[0]))
    assert _inflated(state) == zlib.decompress(kept[1:]), "a field has changed: raise STATE_VERSION"


@given(st.binary(max_size=300))
@example(b"")
@example(bytes([STATE_VERSION]))
@example(b"\x80")  # a map without a field
@example(pickle.dumps({"a": 1}))
@example(zlib.compress(pickle.dumps({"a": 1})))
def test_bytes_of_anything_else_are_refused(noise: bytes) -> None:
    for some in (noise, bytes([STATE_VERSION]) + noise, packed(noise)):
        with pytest.raises(ValueError, match=r"^it "):
            WindowState.of_bytes(some)


@given(st.data())
@examples(500)
def test_damaged_bytes_are_refused_unless_they_unpack_to_the_same(data: st.DataObject) -> None:
    good = a_state()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= data.draw(st.integers(1, 255))
    for some in (good[:at], bytes(flipped), good + b"x"):
        try:
            found = WindowState.of_bytes(some)
        except ValueError:
            continue
        assert some == bytes(flipped)
        # The level of compression, padding, or the distance of an equal copy: they unpack to the same bytes.
        assert zlib.decompress(some[1:]) == zlib.decompress(good[1:])
        assert results(found) == results(WindowState.of_bytes(good))


LEAVES = (
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=3) | st.binary(max_size=3)
)
VALUES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3)
)


@given(st.data())
@examples(500)
def test_a_state_with_another_value_anywhere_is_refused_or_can_be_gone_on_with(data: st.DataObject) -> None:
    tree = plain_tree()
    path: list[Any] = []
    place = tree
    while isinstance(place, (dict, list)) and place and (not path or data.draw(st.booleans())):
        step = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        path.append(step)
        place = place[step]
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = data.draw(VALUES)
    try:
        state = WindowState.of_bytes(packed(msgspec.msgpack.encode(tree)))
    except ValueError:
        return
    see(state, STREAM, STREAM.partitions[0])
    results(state)


def plain_tree() -> dict[str, Any]:
    """A state as plain lists and dictionaries; shapes are left out, whose keys are no text."""
    state = read(STREAM, STREAM.partitions[0])
    state.facts.shapes.clear()
    tree: dict[str, Any] = msgspec.msgpack.decode(_inflated(state))
    return tree


def _inflated(state: WindowState) -> bytes:
    return zlib.decompress((state.to_bytes() or b"")[1:])


def packed(state: bytes) -> bytes:
    return bytes([STATE_VERSION]) + zlib.compress(state)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"", "no version"),
        (bytes([STATE_VERSION + 1]) + a_state()[1:], f"version {STATE_VERSION + 1}"),
        (zlib.compress(b"x"), "version 120"),
        (packed(bytes(1 << 30)[: 200 << 20]), f"more than {MOST_BYTES} bytes"),
        (bytes([STATE_VERSION]) + bytes(MOST_STORED_BYTES), f"at most {MOST_STORED_BYTES}"),
        (a_state()[:-1], "damaged"),
        (a_state() + b"x", "damaged"),
        (packed(b"\x91" * 100_000), "does not hold the state"),
        (packed(msgspec.msgpack.encode({"tally": {"messages": 1 << 63}})), "does not hold the state"),
        (packed(msgspec.msgpack.encode({"tally": 7})), "does not hold the state"),
    ],
    ids=["empty", "newer", "older", "bomb", "large", "short", "long", "nested", "huge-number", "other-type"],
)
def test_what_is_wrong_is_said(stored: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=r"^it ") as caught:
        WindowState.of_bytes(stored)
    assert why in str(caught.value)


def test_a_bomb_is_not_inflated_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = zlib.decompressobj

    class Reader:
        def __init__(self) -> None:
            self._reader = real()

        def decompress(self, data: bytes, most: int) -> bytes:
            asked.append(most)
            return self._reader.decompress(data, most)

    monkeypatch.setattr("dts_assets.stages.window_state.zlib.decompressobj", Reader)
    with pytest.raises(ValueError, match="more than"):
        WindowState.of_bytes(packed(bytes(64 << 20)))
    assert asked == [MOST_BYTES + 1]


@given(topics(), st.integers(1, 20))
@examples(100)
def test_tables_that_too_many_statements_name_are_any_tables(topic: Topic, most: int) -> None:
    """However the window is read, and without keeping more than one too many."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MOST_EMPTIED", "MOST_UNREAD"):
            patch.setattr(entry_facts, name, most - 1)
        for sent in topic.partitions:
            told = {
                SQLS[one.position // 1000 % len(SQLS)] for some in sent for one in some.entries if one.kind == "DDL"
            }
            facts = read(topic, sent, range(0, 60, 2), stored=True).facts
            assert facts.names_altered == (not UNREAD & told and not (most <= 3 and told & ALTERING))
            assert len(facts.altered) <= most
            assert sum(map(len, facts.unread)) <= most


UNREAD, ALTERING = {SQLS[0]}, {SQLS[1]}


def test_a_state_that_would_be_too_large_is_not_kept() -> None:
    state = WindowState.begin(NEVER)
    state.facts.unknown = {f"field {number}": number for number in range(MOST_BYTES // 10)}
    assert state.to_bytes() is None
