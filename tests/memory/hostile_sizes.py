"""Messages that somebody wrote to cost memory, and their peak: ``python -m tests.memory.hostile_sizes CASE`` prints megabytes.

A process of its own decodes each case, because a peak never goes down.
"""

from __future__ import annotations

import json
import resource
import sys
import zlib
from collections.abc import Callable
from typing import Any

from dts_assets.protocol import subscribe_pb2 as pb
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.dts_json import DtsJson
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat
from tests.dts_messages import dml, entry_set, fragments, number
from tests.growth.hostile_drs_records import FLAT
from tests.growth.hostile_json_records import record as json_record
from tests.growth.hostile_records import SCHEMA, record
from tests.growth.hostile_streams import Stream
from tests.growth.whole_way import Way, as_messages
from tests.wire.avro_messages import container, encoded

KILO, MEGA = 1 << 10, 1 << 20


def drs(
    columns: int, rows: str, *, number: int = 1, kind: str = "INSERT", old: str = "null"
) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A DRS message of a table with so many columns and the given rows, in JSON."""
    types = json.dumps({f"c{one}": "int" for one in range(columns)}).replace(" ", "")
    text = (
        f'{{"mysqlType":{types},"id":{number},"es":1648110060000,"ts":1,"database":"shopdb","table":"orders","type":"{kind}",'
        f'"isDdl":false,"sql":"","sqlType":{{}},"data":[{rows}],"old":{old},"pkNames":["c0"]}}'
    )
    return text.encode(), []


def canal(kind: str, value: str, size: int, *, number: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A message of Canal with so many bytes of rows of one column of a type, all with one value."""
    row = json.dumps({"c0": value}).replace(" ", "")
    rows = ",".join([row] * (size // (len(row) + 1)))
    text = (
        f'{{"data":[{rows}],"database":"shopdb","es":1648110060000,"id":{number},"isDdl":false,'
        f'"mysqlType":{{"c0":{json.dumps(kind)}}},"old":null,"pkNames":null,"sql":"","table":"orders","type":"INSERT"}}'
    )
    return text.encode(), []


def empty_rows(size: int) -> str:
    return ",".join(["{}"] * (size // 3))


def with_good(*bad: tuple[bytes, list[tuple[str, bytes]]]) -> Stream:
    """Messages between two good ones, whose rows have to arrive."""
    return [drs(2, '{"c0":"1","c1":"2"}', number=1), *bad, drs(2, '{"c0":"2","c1":"2"}', number=900)]


def good_set(place: int) -> bytes:
    return entry_set([dml((("id", "int(11)"),), [([], [number(place)])])])


def repeated(field: bytes, size: int) -> bytes:
    """A set of as many entries of these bytes as fit a size."""
    return field * (size // len(field))


EMPTY_ENTRY = b"\x0a\x00"


def sets(*datas: bytes) -> Stream:
    return [(one, []) for data in (good_set(1), *datas, good_set(2)) for one in fragments(data)]


def records(values: int, columns: int, *, count: int = 1) -> Stream:
    """Records with so many empty values each, of a table with so many columns, between two good ones."""
    shape = [{"name": f"c{number}", "originalType": "int"} for number in range(columns)]
    bad = [record(5 + place, columns=shape, newColumns=[{"EmptyObject": "NULL"}] * values) for place in range(count)]
    return [record(1), *bad, record(900)]


def drs_records(columns: int, rows: int, *, count: int = 1, zeros: int = 0) -> Stream:
    """Records of DRS with empty rows of so many columns, and a container that unfolds to zeros, between two good ones."""
    types = {f"c{one}": "int" for one in range(columns)}
    common = {"mysqlType": types, "es": 1, "database": "shopdb", "table": "orders", "type": "INSERT", "pkNames": ["c0"]}
    bad = [encoded(FLAT, {**common, "id": 5 + place, "data": [{}] * rows}) for place in range(count)]
    if zeros:
        folder = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        folded = folder.compress(bytes(zeros)) + folder.flush()
        empty = container(FLAT, [], codec="deflate")
        bad.append(empty + long(1) + long(len(folded)) + folded + empty[-16:])
    usual = {**common, "mysqlType": {"c0": "int", "c1": "int"}, "data": [{"c0": "1", "c1": "2"}]}
    good = [encoded(FLAT, {**usual, "id": number}) for number in (1, 900)]
    return [(one, []) for one in (good[0], *bad, good[1])]


def json_records(image: Any, columns: int = 1, *, count: int = 1) -> Stream:
    """Records in JSON with such an image between two good ones."""
    described = [{"name": f"c{number}"} for number in range(columns)]
    fields = {"columns": described, "pkNames": None, "newColumns": image}
    return [json_record(0), *(json_record(1 + one, **fields) for one in range(count)), json_record(1 + count)]


def _many(stream: Stream, count: int) -> Stream:
    """A stream whose last message but one comes so many times."""
    return [*stream[:-2], *[stream[-2]] * count, stream[-1]]


def long(value: int) -> bytes:
    """A number from zero on as Avro writes it."""
    made, left = [], value << 1
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


LONG_SET = "set(" + ",".join(f"'{number:0254}'" for number in range(64)) + ")"

CASES: dict[str, tuple[WireFormat, Callable[[], Stream]]] = {
    "nothing": (DrsJsonC(), with_good),
    "DRS: 64 KB of empty rows": (DrsJsonC(), lambda: with_good(drs(600, empty_rows(56 * KILO), number=2))),
    "DRS: 64 KB of empty rows of 4,000 columns": (
        DrsJsonC(),
        lambda: with_good(drs(4000, empty_rows(16 * KILO), number=2)),
    ),
    "DRS: many messages of empty rows": (
        DrsJsonC(),
        lambda: with_good(*(drs(600, empty_rows(3 * KILO), number=2 + one) for one in range(40))),
    ),
    "DRS: 64 KB of empty old rows": (
        DrsJsonC(),
        lambda: with_good(drs(600, empty_rows(28 * KILO), number=2, kind="UPDATE", old=f"[{empty_rows(28 * KILO)}]")),
    ),
    "Canal: many numbers that stand for long texts": (
        CanalJson(),
        lambda: [
            canal("set('a','b')", "1", 12, number=1),
            canal(LONG_SET, str((1 << 64) - 1), 8 * MEGA, number=2),
            canal("set('a','b')", "2", 12, number=3),
        ],
    ),
    "DTS: 1 MB of empty entries": (DtsProtobuf(), lambda: sets(repeated(EMPTY_ENTRY, MEGA))),
    "DTS: 8 MB of empty entries": (DtsProtobuf(), lambda: sets(*(repeated(EMPTY_ENTRY, MEGA) for _ in range(8)))),
    "DTS: 1 MB of empty entries in small sets": (
        DtsProtobuf(),
        lambda: sets(*(repeated(EMPTY_ENTRY, 16 * KILO) for _ in range(64))),
    ),
    "DTS: 1 MB of empty rows": (DtsProtobuf(), lambda: sets(rows_of(MEGA))),
    "DRS: rows of one column of a table of 4,000": (
        DrsJsonC(),
        lambda: [drs(4000, "{}"), drs(1, ",".join(['{"c0":"1"}'] * 6 * KILO), number=2), drs(4000, "{}", number=3)],
    ),
    "DTS: rows of one column of a table of 4,000": (
        DtsProtobuf(),
        lambda: [(one, []) for data in (wide_set(), narrow_set(8 * KILO), wide_set()) for one in fragments(data)],
    ),
    "Avro: 1 MB of empty values": (DtsAvro(SCHEMA), lambda: records(500_000, 1)),
    "Avro: messages of 16,000 empty values": (DtsAvro(SCHEMA), lambda: records(16_000, 1, count=40)),
    "Avro: rows of 4,000 columns": (DtsAvro(SCHEMA), lambda: records(4_000, 4_000, count=60)),
    "DTS JSON: 1 MB of nulls": (DtsJson(), lambda: json_records([None] * 200_000)),
    "DTS JSON: many messages of nulls": (DtsJson(), lambda: json_records([None] * 16_000, count=40)),
    "DTS JSON: rows of 4,000 columns without values": (DtsJson(), lambda: json_records({"c0": "1"}, 4_000, count=60)),
    "DTS JSON: objects without values": (DtsJson(), lambda: json_records([{}] * 4_000, 4_000, count=60)),
    "DRS Avro: empty rows of 4,000 columns": (DrsAvro(FLAT), lambda: drs_records(4_000, 9_000)),
    "DRS Avro: many messages of empty rows": (DrsAvro(FLAT), lambda: drs_records(600, KILO, count=40)),
    "DRS Avro: a container of zeros": (DrsAvro(FLAT), lambda: drs_records(1, 1, zeros=256 * MEGA)),
    "DRS Avro: many containers of zeros": (DrsAvro(FLAT), lambda: _many(drs_records(1, 1, zeros=31 * MEGA), 40)),
}


def rows_of(size: int) -> bytes:
    """An entry set of one entry whose rows hold nothing."""
    one = dml((("id", "int(11)"),), [])
    one.event.dmlEvent.rows.extend([pb.RowChange()] * (size // 2))
    return entry_set([one])


WIDE = tuple((f"c{one}", "int(11)") for one in range(4000))


def wide_set() -> bytes:
    return entry_set([dml(WIDE, [([], [pb.Data()] * len(WIDE))])])


def narrow_set(rows: int) -> bytes:
    return entry_set([dml(WIDE[:1], [([], [number(1)])] * rows)])


def peak() -> float:
    """The greatest memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KILO


def main(case: str) -> None:
    wire, make = CASES[case]
    usual = {"json": with_good(), "protobuf": sets(), "avro": records(1, 1)}[wire.traits.kind]
    usual = drs_records(1, 1) if isinstance(wire, DrsAvro) else usual
    Way(wire).go(as_messages(usual))  # imports
    messages = as_messages(make())
    before = peak()
    way = Way(wire).go(messages)
    found = {"peak": round(peak() - before), "changes": way.changes, "rejections": way.rejections}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
