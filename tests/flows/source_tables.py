"""Source tables as the made-up database keeps them: columns, how their values are sent, and how rows are made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final, TypeAlias
from zlib import crc32

from dts_assets.protocol import subscribe_pb2 as pb
from tests import dts_messages

Row: TypeAlias = Mapping[str, Any]


class _Absent:
    """Stands for a value that an image leaves out."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True)
class Kind:
    """A column type: how the source spells it, how a value is sent, and how one is made up."""

    original_type: str
    send: Callable[[Any], pb.Data]
    make: Callable[[Random], Any]


def _number(data_type: pb.DataType) -> Callable[[Any], pb.Data]:
    return lambda value: dts_messages.number(value, data_type)


def _text(charset: str, codec: str) -> Callable[[Any], pb.Data]:
    return lambda value: dts_messages.text(str(value), charset, codec)


def _bytes(value: Any) -> pb.Data:
    return dts_messages.raw(value if isinstance(value, bytes) else str(value).encode())


def _instant(random: Random) -> datetime:
    return datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(30_000_000))


_WORDS = ("", "tea", "铁观音", "O'Neil", "naïve", "line\nbreak", '"quoted"', "x" * 60)

INT = Kind("int(11)", _number(pb.INT32), lambda random: random.randint(-(1 << 31), (1 << 31) - 1))
BIGINT = Kind("bigint(20)", _number(pb.INT64), lambda random: random.randint(-(1 << 63), (1 << 63) - 1))
UNSIGNED = Kind(
    "bigint(20) unsigned", _number(pb.UINT64), lambda random: Decimal(random.randint((1 << 63) - 9, (1 << 64) - 1))
)
MONEY = Kind("decimal(12,2)", _number(pb.DECIMAL), lambda random: Decimal(random.randint(-99999, 99999)) / 100)
DOUBLE = Kind("double", lambda value: dts_messages.number(repr(value), pb.FLOAT64), lambda random: random.gauss(0, 1e6))
TEXT = Kind("varchar(80)", _text("utf8mb4", "utf-8"), lambda random: random.choice(_WORDS))
GBK = Kind("varchar(20)", _text("gbk", "gbk"), lambda random: random.choice(("茶", "", "红茶", "tea")))
BLOB = Kind("blob", _bytes, lambda random: random.randbytes(random.randrange(12)))
JSON = Kind("json", _bytes, lambda random: json.dumps({"n": random.randrange(9)}))
TIME = Kind(
    "time", _text("utf8", "ascii"), lambda random: f"{random.choice(('', '-'))}{random.randint(100, 838)}:09:08"
)
DATE = Kind("date", _text("utf8", "ascii"), lambda random: date(2000, 1, 1) + timedelta(days=random.randrange(9000)))
WALL_CLOCK = Kind(
    "datetime(6)",
    _text("utf8", "ascii"),
    lambda random: _instant(random).replace(tzinfo=None, microsecond=random.randint(1, 999_999)),
)
INSTANT = Kind(
    "timestamp", lambda value: _text("utf8", "ascii")(f"{value:%Y-%m-%d %H:%M:%S} +00:00"), _instant
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A column of a source table."""

    name: str
    kind: Kind
    is_key: bool = False


@dataclass
class Table:
    """A source table; columns may be added while the source runs.

    ``sent_as`` are the database and the name that events have, where these are not those of the one database.
    """

    name: str
    columns: list[Field]
    sent_as: tuple[str, str] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.is_key)

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)

    def row(self, random: Random, **given: Any) -> Row:
        """A row with made-up values, about one in six NULL."""
        made = {
            column.name: None if not column.is_key and random.random() < 0.16 else column.kind.make(random)
            for column in self.columns
        }
        return {**made, **given}

    def partition(self, row: Row, partitions: int) -> int:
        """By primary key, or the whole table where it has none."""
        return crc32(repr((self.name, self.key(row))).encode()) % partitions
