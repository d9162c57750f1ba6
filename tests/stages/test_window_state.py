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
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.window_state import MOST_BYTES, MOST_STORED_BYTES, STATE_VERSION, WindowState
from dts_assets.wire.format import Checkpoint, DecodedEntries, TableShape
from tests.stages.deliveries import SERVER, Entry, Message, Topic, entries_of, sets_of, topics
from tests.tiers import examples

T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)
ORDERS = TableShape(TableId("shopdb", "", "orders"), (ColumnShape("id", "int(11)", True),))
NEVER = OffsetRange(0, 0)


def decoded(topic: Topic, sets: Sequence[Message]) -> DecodedEntries:
    """The entries of some sets with every column that is taken note of."""
    held = [entry for one in sets for entry in one.entries]
    changes = [entry.kind == "DML" for entry in held]
    table = {"database": "shopdb", "schema": None, "table": "orders"}
    sql = [("sql", "TRUNCATE TABLE shopdb.orders")]
    columns = {
        "event_time": pa.array([T0 + timedelta(seconds=one.number) for one in held], pa.timestamp("us", tz="UTC")),
        "rows": pa.array(
            [one.position % 7 if change else None for one, change in zip(held, changes, strict=True)], pa.int32()
        ),
        **{
            name: pa.array([value if change else None for change in changes], pa.string())
            for name, value in table.items()
        },
        "properties": pa.array([sql if one.kind == "DDL" else None for one in held], pa.map_(pa.string(), pa.string())),
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
    "2zUXVR?Tl4MHHWny@dlOa>x-MB2*5MaK1`<LI_mBp$PTJ!5Z(rwWnUsZg*xA1%wnQjZ{FD5{oNRX!gr?0!XFz$~jkXLdu16&in)B?Tj5eRFO8lSe~7k"
    "_wjqb_j~hwEUD{mKh4@81Z{vY<E^IW0_iycZM1<)K~8z-y0ysx^2ei)29!(2!JdBYTQmq5eqo#>550Vo^hM}HAi&1|=@w;pr9ocIUY|M{OzwN3Bm-@r"
    "CIH<J>Vek+t{1UGEh+vX@1__U`V;R&HkGuTS{|-F_wCebQjU4dKcDq8K1@z*usjS$88d&MJ)(T|(1cs3R!fjyZQHF0NhK&0jMID_a_ajorb+r%6Rehx"
    "iORjy#dHxo5;@F;Qs#RCbM^SE`NikcW3`54%JKQ_6{uDnx_W2nPSv7I)hbk%Heh9C$@=I+N;g)QH`dmd?^c&qdlO5dV|1@~Q@Xf*Z^1utF$W=Qu!$)A"
    "Jz`(~m?WY}eGr{ptbW~vy)4JDP6gnG=iBu}VAySXq_-0<u(6B?u^YCzINXakZNoEWpLzjnFizc?-1Z?wC~jA)A0$lFTCja~eN3f)(~!5gx5Yb|!@#vG"
    "8yiLjZC`F9LyR>4hZr9giz^C3E_U;j0$X&Bo~ZTV(-VgUn6>9PSXnY~>E*(V)mFFks&o<M-|^pq-`D3QYr~)9*1cce`|9DxJ#}mP>E{<aJpsWc1T|(G"
    "QC`sV_lp%XsRKeK&JxY$VH$uBREoJ&8x)=M#Uhrv#;q7lg}mtbJh#D=h2n5OR!|)!8k#9xuP@mAV)h2)b!ZC|>4#~PHJZpl1$5>Iu*tkos8yobsUb&v"
    "BLPq}w>LlnxtvqBTMTUDw>+8|75G1R#$~Tx58hjU-GnI1QBF72rq41PT!v)Zev)i4*<^e-MnMWBIR<W<sji=Rtm#Y?mCaPNnD2va#JP-Pv+CWl+AWW3"
    "ZX$~xg}^P;fTJJAe9#Att9_%c8CSX|YXnGKtfrX-_>1ufW5Q+<TVBYe5$6hl4XkaJl$Fxh`P_-b@gY#hQ6kYliuoi0MeK5n*?~PbQS!1jvVRj4s|D&("
    "x|r$Zaco5Q)>-8F!1ojvZ{&BqfZqlGb-(7=?-igEp9&nFFC!NmiK?4(@kY_C6^LfO`+77b9nEkyn$kELv)A?lsO9(&Esr-)!F5Fh)%UZu%`5tFIu?tX"
    "q5&SBUrc$}uHy(QsCnf$j|m$ipY=sAk$%XL*mgb;Nz}xt)FIujG1o1Zd%~hpLICzK%0+FMI5c#nIQ(g@bpBxc;HY>`Wro<5B4U1b?OV_Ju97!5K6@%m"
    "ipnRS-TVCh*+7A;y%3xbk8s|Im-?$7bR^T5fNf&nlm8@916@2;WI4E$+ELtM+!i~DYEQA#=YWb__rgHz;~*bJf-?Icv%Rn`ozNw^<wmMpqeQ(N#Qrf3"
    "+I{uJA(zA=Q}z(mphw3T=|M~zlodU!y{L$X*+iH|S^l2fq^{`b{n+t>w%F~t9=-<c8kJ`1FquCoJExyQ9ll{<yYj_@FYlZG0fd=5+5"
)
"""A state of version 8, as it was stored once. It must be readable, and mean the same, for as long as that is the version."""


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


def test_a_state_that_would_be_too_large_is_not_kept() -> None:
    state = WindowState.begin(NEVER)
    state.facts.unknown = {f"field {number}": number for number in range(MOST_BYTES // 10)}
    assert state.to_bytes() is None
