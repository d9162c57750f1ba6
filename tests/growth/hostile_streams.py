"""Streams that somebody wrote to cost time: each of ``count`` things of one kind, small enough to fit a few messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias
from uuid import UUID

from dts_assets.protocol import subscribe_pb2 as pb
from tests.dts_messages import SERVER, dml, entry, entry_set, fragments, number, text

Stream: TypeAlias = list[tuple[bytes, list[tuple[str, bytes]]]]
"""The values of Kafka messages with their headers, in offset order."""

_AT_ONCE = 200
_SQL = "TRUNCATE TABLE orders"
_COLUMNS = (("id", "int(11)"),)


def packed(entries: Iterable[pb.Entry], at_once: int = _AT_ONCE) -> Stream:
    """Entries in sets of some, each set a message."""
    found: Stream = []
    held: list[pb.Entry] = []
    for one in entries:
        held.append(one)
        if len(held) == at_once:
            found.append((fragments(entry_set(held))[0], []))
            held = []
    return [*found, (fragments(entry_set(held))[0], [])] if held else found


def _begin(place: int, gtid: str = "", **header: Any) -> pb.Entry:
    usual = {"position": 4 + place, "gtid": gtid, "timestamp": 1_648_110_060 + place, "seqId": place + 1}
    return entry(pb.BEGIN, pb.Event(beginEvent=pb.BeginEvent()), **{**usual, **header})


def _commit(place: int, gtid: str = "", **header: Any) -> pb.Entry:
    usual = {"position": 4 + place, "gtid": gtid, "timestamp": 1_648_110_060 + place, "seqId": place + 1}
    return entry(pb.COMMIT, pb.Event(commitEvent=pb.CommitEvent()), **{**usual, **header})


def _row(place: int, gtid: str = "", table: str = "orders", **header: Any) -> pb.Entry:
    found = dml(_COLUMNS, [([], [number(place)])], table=table)
    usual = {"position": 4 + place, "gtid": gtid, "timestamp": 1_648_110_060 + place, "seqId": place + 1}
    for name, value in {**usual, **header}.items():
        setattr(found.header, name, value)
    return found


_LOG: dict[str, Any] = {"sourceType": pb.PGSQL, "fileName": ""}
"""The header of an entry in PostgreSQL's log."""


def _checkpoint(place: int, gtids: str) -> pb.Entry:
    event = pb.CheckpointEvent(syncedGtid=gtids, fileName="mysql-bin.000005", position=4 + place)
    return entry(pb.CHECKPOINT, pb.Event(checkpointEvent=event), position=4 + place)


def _ddl(place: int, sql: str = _SQL) -> pb.Entry:
    event = pb.DDLEvent(schemaName="shopdb", sql=sql)
    return entry(pb.DDL, pb.Event(ddlEvent=event), position=4 + place, timestamp=1_648_110_060 + place)


def _uuid(place: int) -> str:
    return str(UUID(int=place + 1))


def _transactions(gtids: Iterable[tuple[int, str]], **header: Any) -> Iterator[pb.Entry]:
    for place, gtid in gtids:
        yield _begin(3 * place, gtid, **header)
        yield _row(3 * place + 1, gtid, **header)
        yield _commit(3 * place + 2, gtid, **header)


DTS: dict[str, Callable[[int], Stream]] = {
    "transactions": lambda count: packed(
        _transactions((place, f"{SERVER}:{place + 1}") for place in range(count // 3))
    ),
    "sources of GTIDs": lambda count: packed(
        _transactions((place, f"{_uuid(place)}:1") for place in range(count // 3))
    ),
    "sources of GTIDs, one entry each": lambda count: packed(
        _begin(place, f"{_uuid(place)}:1") for place in range(count)
    ),
    "two sources of GTIDs in turn": lambda count: packed(
        _begin(place, f"{_uuid(place % 2)}:{place + 1}") for place in range(count)
    ),
    "GTIDs with holes": lambda count: packed(
        _transactions((place, f"{SERVER}:{2 * place + 1}") for place in range(count // 3))
    ),
    "falling GTIDs": lambda count: packed(  # beyond the runs that are kept of a window
        _transactions((place, f"{SERVER}:{4 * count - place}") for place in range(4 * count))
    ),
    "texts that are no GTIDs": lambda count: packed(_begin(place, f"{place}") for place in range(count)),
    "falling positions": lambda count: packed(_row(place, position=4 + count - place) for place in range(count)),
    "falling positions and times": lambda count: packed(
        _row(place, position=4 + count - place, timestamp=1_648_110_060 + count - place) for place in range(count)
    ),
    "falling positions of transactions": lambda count: packed(
        _begin(place, f"{SERVER}:{place + 1}", position=4 + count - place) for place in range(count)
    ),
    "falling positions of one transaction": lambda count: packed(
        _row(place, f"{SERVER}:7", position=4 + count - place) for place in range(count)
    ),
    "positions told again": lambda count: packed(_row(place, position=4 + place % 2) for place in range(count)),
    "one position": lambda count: packed(_row(place, position=4) for place in range(count)),
    "changes at one place of a log": lambda count: packed(_row(place, position=4, **_LOG) for place in range(count)),
    "changes at the places of their COMMITs": lambda count: packed(
        one for place in range(count // 3) for one in _transactions([(place, "")], position=4 + place, **_LOG)
    ),
    "falling transactions of a log": lambda count: packed(
        one
        for place in range(count // 3)
        for one in _transactions([(place, "")], position=4 + count - place, timestamp=1_648_110_060 + place, **_LOG)
    ),
    "files": lambda count: packed(_row(place, fileName=f"mysql-bin.{place}") for place in range(count)),
    "falling files": lambda count: packed(_row(place, fileName=f"mysql-bin.{count - place}") for place in range(count)),
    "files of 18 digits": lambda count: packed(
        _row(place, fileName=f"mysql-bin.{10**18 - 1 - place}") for place in range(count)
    ),
    "server ids": lambda count: packed(_row(place, serverId=place) for place in range(count)),
    "tables": lambda count: packed(_row(place, table=f"t{place}") for place in range(count)),
    "BEGIN after BEGIN": lambda count: packed(_begin(place) for place in range(count)),
    "COMMIT after COMMIT": lambda count: packed(_commit(place) for place in range(count)),
    "BEGIN and COMMIT of others": lambda count: packed(
        (_begin if place % 2 else _commit)(place, f"{SERVER}:{place + 1}") for place in range(count)
    ),
    "changes of others": lambda count: packed(_row(place, f"{SERVER}:{place + 1}") for place in range(count)),
    "CHECKPOINTs": lambda count: packed(_checkpoint(place, f"{SERVER}:1-{place + 1}") for place in range(count)),
    "falling CHECKPOINTs": lambda count: packed(_checkpoint(count - place, "") for place in range(count)),
    "intervals of a CHECKPOINT": lambda count: packed(
        [_row(0), _checkpoint(9, f"{SERVER}:" + ":".join(str(2 * place + 1) for place in range(count)))]
    ),
    "sources of a CHECKPOINT": lambda count: packed(
        [_row(0), _checkpoint(9, ",".join(f"{_uuid(place)}:1" for place in range(count)))]
    ),
    "tags of a CHECKPOINT": lambda count: packed(
        [_row(0), _checkpoint(9, "x" * 100 * count + "".join(f":t{place}:1" for place in range(count)))]
    ),
    "statements": lambda count: packed(_ddl(place) for place in range(count)),
    "tables of a statement": lambda count: packed(
        [_row(0), _ddl(9, "DROP TABLE " + ",".join(f"t{place}" for place in range(count)))]
    ),
    "columns of a statement": lambda count: packed(
        [_row(0), _ddl(9, "ALTER TABLE orders " + ",".join(f"ADD c{place} INT" for place in range(count)))]
    ),
    "columns": lambda count: packed([_wide(count)]),
    "bits": lambda count: packed([dml([("b", "bit(64)")], [([], [number(-place)]) for place in range(count)])]),
    "texts of a character set": lambda count: packed(
        [dml([("t", "text")], [([], [text("x", "latin1")]) for _ in range(count)])]
    ),
    "texts of character sets": lambda count: packed(
        [dml([("t", "text")], [([], [text("x", f"set{place}")]) for place in range(count)])]
    ),
    "texts that are none": lambda count: packed([dml([("t", "text")], [([], [text(b"\xff")]) for _ in range(count)])]),
    "values of another layout": lambda count: packed(
        [dml(_COLUMNS, [([], [pb.Data(dataType=pb.INT32, sv="1", bv=b"x")]) for _ in range(count)])]
    ),
    "rows": lambda count: packed([dml(_COLUMNS, [([], [number(place)]) for place in range(count)])]),
    "numbers that are none": lambda count: packed([dml(_COLUMNS, [([], [number("x")]) for _ in range(count)])]),
    "properties": lambda count: packed([_with_properties(count)]),
    "one property again and again": lambda count: packed([_with_properties(count, distinct=1)]),
    "empty messages": lambda count: [(b"", [])] * count,
    "messages that are none": lambda count: [(b"\xff", [])] * count,
    "entries that are none": lambda count: [(fragments(b"\xff")[0], [])] * count,
    "fragments": lambda count: [
        (one, []) for one in fragments(b"".join(entry_set([_row(one)]) for one in range(count)), count)
    ],
    "first fragments": lambda count: [(fragments(b"ab", 2)[0], [])] * count,
    "last fragments": lambda count: [(fragments(b"ab", 2)[1], [])] * count,
    "fragments of many": lambda count: [(fragments(b"ab" * 9, 9)[place % 7], []) for place in range(count)],
    "shards": lambda count: [_of_shard(place, place) for place in range(count)],
    "shards of fragments": lambda count: [
        (fragments(b"ab", 2)[0], [("ShardId", b"%d" % place)]) for place in range(count)
    ],
    "falling numbers": lambda count: [_of_shard(place, 0, ps=count - place) for place in range(count)],
    "numbers with holes": lambda count: [_of_shard(place, 0, ps=2 * place + 1) for place in range(count)],
    "numbers that begin again": lambda count: [_of_shard(place, 0, ps=1) for place in range(count)],
}


def _wide(count: int) -> pb.Entry:
    columns = [(f"c{place}", "int(11)") for place in range(count)]
    return dml(columns, [([], [number(1)] * count)])


def _with_properties(count: int, distinct: int = 1 << 30) -> pb.Entry:
    found = _row(0)
    found.header.properties.extend(pb.KVPair(key=f"k{place % distinct}", value="v") for place in range(count))
    return found


def _of_shard(place: int, shard: int, ps: int | None = None) -> tuple[bytes, list[tuple[str, bytes]]]:
    headers = [("ShardId", b"s%d" % shard), ("ps", b"%d" % (place + 1 if ps is None else ps))]
    return fragments(entry_set([_row(place)]))[0], headers


def _message(place: int, **changed: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    usual: dict[str, Any] = {
        "id": place + 1,
        "es": 1_648_110_060_000 + place,
        "ts": 1,
        "database": "shopdb",
        "table": "orders",
        "type": "INSERT",
        "isDdl": False,
        "sql": "",
        "mysqlType": {"id": "int"},
        "data": [{"id": str(place)}],
        "old": None,
        "pkNames": ["id"],
    }
    return json.dumps({**usual, **changed}).encode(), []


_DDL: dict[str, Any] = {"isDdl": True, "data": None, "mysqlType": None, "pkNames": None, "type": "DDL"}

DRS_JSON: dict[str, Callable[[int], Stream]] = {
    "seconds": lambda count: [_message(0, mysqlType={"id": "timestamp"}, data=[{"id": "1624614713.201"}] * count)],
    "seconds and clocks": lambda count: [
        _message(
            0,
            mysqlType={"id": "timestamp"},
            data=[{"id": ("1624614713", "2021-06-25 17:51:53")[place % 2]} for place in range(count)],
        )
    ],
}

DRS: dict[str, Callable[[int], Stream]] = {
    "messages": lambda count: [_message(place) for place in range(count)],
    "falling ids": lambda count: [_message(place, id=count - place) for place in range(count)],
    "falling ids and times": lambda count: [
        _message(place, id=count - place, es=1_648_110_060_000 - place) for place in range(count)
    ],
    "ids told again": lambda count: [_message(place % 2, es=1_648_110_060_000) for place in range(count)],
    "ids of another content": lambda count: [_message(place, id=1 + place % 2) for place in range(count)],
    "one id": lambda count: [_message(place, id=7) for place in range(count)],
    "tables": lambda count: [_message(place, table=f"t{place}") for place in range(count)],
    "loads and changes in turn": lambda count: [
        _message(place, type=("INIT", "UPDATE")[place % 2]) for place in range(count)
    ],
    "loads behind changes": lambda count: [
        _message(place, table=f"t{place // 2}", type=("UPDATE", "INIT")[place % 2]) for place in range(count)
    ],
    "bytes": lambda count: [_message(0, mysqlType={"id": "blob"}, data=[{"id": "[106, -3]"}] * count)],
    "definitions": lambda count: [_message(place, **{**_DDL, "type": "INIT_DDL"}, sql=_SQL) for place in range(count)],
    "statements": lambda count: [_message(place, **_DDL, sql=_SQL) for place in range(count)],
    "statements of one id": lambda count: [_message(place, id=7, **_DDL, sql=_SQL) for place in range(count)],
    "columns of the key": lambda count: [
        _message(
            0,
            mysqlType={f"c{place}": "int" for place in range(count)},
            pkNames=[f"c{place}" for place in range(count)],
            data=[{f"c{place}": "1" for place in range(count)}],
        )
    ],
    "rows": lambda count: [_message(0, data=[{"id": str(place)} for place in range(count)])],
    "rows without columns": lambda count: [_message(0, data=[{}] * count)],
    "fields that are not known": lambda count: [_message(0, **{f"x{place}": 1 for place in range(count)})],
    "one such field each": lambda count: [_message(place, **{f"x{place}": 1}) for place in range(count)],
    "messages that are none": lambda count: [(b"{", [])] * count,
    "numbers that are none": lambda count: [_message(place, data=[{"id": "x"}]) for place in range(count)],
}

CANAL: dict[str, Callable[[int], Stream]] = {
    "messages": lambda count: [_message(place) for place in range(count)],
    "falling times": lambda count: [_message(place, es=1_648_110_060_000 - 1000 * place) for place in range(count)],
    "one time": lambda count: [_message(place, es=1_648_110_060_000) for place in range(count)],
    "updates": lambda count: [_message(place, type="UPDATE", old=[{"id": "0"}]) for place in range(count)],
    "rows of an update": lambda count: [
        _message(0, type="UPDATE", data=[{"id": "1"}] * count, old=[{"id": "0"}, {}] * (count // 2))
    ],
    "statements": lambda count: [_message(place, **_DDL, sql=_SQL) for place in range(count)],
    "control": lambda count: [_message(place, type="QUERY", sql=_SQL) for place in range(count)],
    "GTIDs": lambda count: [_message(place, gtid=f"{SERVER}:1-{place + 1}") for place in range(count)],
    "labels of a type": lambda count: [
        _message(
            0, mysqlType={"id": "enum(" + ",".join(f"'{place}'" for place in range(count)) + ")"}, data=[{"id": "1"}]
        )
    ],
    "numbers of labels": lambda count: [
        _message(0, mysqlType={"id": "set('a','b')"}, data=[{"id": str(place)} for place in range(count)])
    ],
    "types with labels": lambda count: [
        _message(place, mysqlType={"id": f"enum('{place}')"}, data=[{"id": "1"}]) for place in range(count)
    ],
    "columns with labels": lambda count: [
        _message(
            0,
            mysqlType={f"c{place}": f"enum('{place}')" for place in range(count)},
            pkNames=None,
            data=[{f"c{place}": "1" for place in range(count)}],
        )
    ],
    "bytes": lambda count: [_message(0, mysqlType={"id": "blob"}, data=[{"id": "aé"}] * count)],
    "characters that are no bytes": lambda count: [_message(0, mysqlType={"id": "blob"}, data=[{"id": "€"}] * count)],
    "binary values": lambda count: [_message(0, mysqlType={"id": "binary(4)"}, data=[{"id": "a"}] * count)],
    "messages that are none": lambda count: [(b"{", [])] * count,
}
