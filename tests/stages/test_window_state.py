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
from dts_assets.model.positions import ServerPosition
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
    shapes = {ORDERS: changes.index(True)} if any(changes) else {}
    return DecodedEntries(batch, (), shapes, checkpoints, {"field 99": 1} if held else {})


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
        places = ((shape, ServerPosition(*columns.place(row))) for shape, row in found.shapes.items())
        state.facts.add(found, columns, places)
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
    "4R`^aR?Tl4MHHWn?Z5#Ei3oAThX|EJB-~HZ6GEU04n?R(4y*C*TYKv9>~?21Q9wv>(ntk_NF1(6rrj?)2_Ti;tK?k42`QJJd*&YqZ)WY-DT=h|WwrD5-"
    "kaZhzu%kh5=A**`!Vl=l(Yr1maMjY4rJ(swABTnBsmZf=k{a+`SV^xLn;&#;7(^p4h=(wGfa^5uCEu#NJasK5?uVxRw=_HE%Idc_|(bX<h&m#vR4?eC7"
    "}DgX6Sc76obU0j*`#G+Zl$2{^T36OBJnVj*nxXzn(d5D)1f)k7xaiH<NuA93R6m#%h1eZZW=wXo5GX(~;yi*X6cURDnUkI?&@t&>-M=O)_%Y;B*4KsM^"
    "dpUKhb5vBx-6^1zpPS6@6^SbRL)X15eGj*l;0fkwllS8pucXgGAK(SXL%GF-W`<b3!6rOQ_@FJHTU`DSD3>TqI7_N@N-ZYnR%UwbFm=XeLHY*;}Q{yAY"
    "^{g9@zO#_g<4a|O%!~I-i*rXD0!4KSKDlzOX9Tdx{AG(;vk@Ta`0S(;%;pS0S$eqnt&@Mb=?tve&788`)YAt{aVY$?3yq_{@cVO*k<7H$j|7MZs2!B=d"
    "a*qLb>&wel4&6YlVUbvw{zI5|HcN$;Q?4M?)s>k)aJSP)gh1WxIE;kc)E5q2*&94C<DH-OJr*J+zUSd}$R4MsgIZ#i`juyu7qOnlzjuOBv0t$+{6*$({"
    "rc{gcRw1MQ`4zmo~#cggewr*%(Y^j?&J5$r8;c_f+vsCqSg<y5CWh|&Six`**jh=W2tY=Cuk}XW%uj54Of{GNPjGda$a_KEsf4@wesxE!S1}afeE)Y93"
    "?Hx?@f6jceWCfo<UlqV@ja&%X(oke+4>uv;&5QhgqAo+Q<r%+&l<jh53;*qqN{lk!H+kECI^m`3mSGyEJk7<)F8I*U`-A(#zmkr|NS)c(46^k>b1@>k>"
    "D@@o>cbmK|{FfLzaA;0%j>?LmqK)MjEMLAeYSc?80(WkoLK{en)!P^p&54hsTstwc8&l#gPyYF4Y`{MV30_aYGJq&N6}TpPtk>nv~0G3yL_^A^%x>s>7"
    "m@r&_DYr-ayIDRCQm1xaEZ7FP4jFrmR`P{z3<|eVrpn#+Q=j5$P1cq4E1aAlK+@#M`3nN<>L9|gKN0k>dS~8A}6x=?F{Q$(Ksmlxby<WmE%E45_CJ7n)"
    "Jp*(aP?QY!Y0SY>*avi7UMQMtC8AmA|38{a5zXOjG?j5QwPDu}!PfYYLY^<6!q-h97!8=UT|1){2V>!|O&Q?kg~d!n-6l53lG;~IbWBJL{SqmAh>VJUr"
    "rR}%+t@IBq~EvZ`qk=CI#gl%1NSi20(Y2tG~!C`{5)4VzB7If)qSr%Q`q$~&E)2_Z+!3Dx+XV1%IZwX`p2K%`t0`6o&mY=La;;K!+s~97PCd8C3%4fxH"
    "SxX@=sFp+>rN8v235p?n%;N!j<c(p{HCQ2|#sj;&Vf8;nU(ImXx{Mx$8$w<wcwnlshr$I!VpDMs7XAM!#jA8RWFE$h3NhA?V-{M!KEQ7G-5O7hX)nhxt"
    "U9PICR)U7=j|iuJ_v!>-&Iav$HSu1!@f^O({P-rm6{(1fp9)UAJh=Zo95{{VDwa}@"
)
"""A state of version 13, as it was stored once. It must be readable, and mean the same, for as long as that is the version."""


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
