"""The signs of DTS Avro in a message that is read without a schema.

A record begins with ``id`` (long), ``version`` (int, 1) and ``messageType`` (enum); then, in every schema that is known, the
name of the binlog file follows, or three empty texts where a message has no place in the binlog. Whole numbers of Avro are
zigzag: 1 is ``02``.
"""

from __future__ import annotations

import re

from dts_assets.wire.recognition.samples import Sample, Signs

_LAST_TYPE = 15
_LONGEST_NUMBER = 10
_FILE = re.compile(rb"[\x02-\xfe][\w.-]+\.\d{6,}")
_NO_PLACE = bytes(3)
_FOUND = frozenset({"id, version 1, messageType and a binlog file in front"})


def avro_signs(sample: Sample) -> Signs | None:
    """Return the signs of a record of DTS in a message; None where they are missing."""
    value = sample.value[:256]
    place = _behind_number(value, 0)
    version, kind = value[place : place + 1], value[place + 1 : place + 2]
    if version != b"\x02" or not kind or kind[0] % 2 or kind[0] // 2 > _LAST_TYPE:
        return None
    if value[place + 2 : place + 2 + len(_NO_PLACE)] == _NO_PLACE:
        return _FOUND
    file = _FILE.match(value, place + 2)
    if file is None or file.end() - file.start() - 1 < file.group()[0] // 2:
        return None
    return _FOUND


def _behind_number(value: bytes, start: int) -> int:
    """Return the place behind a number of variable length."""
    for place, byte in enumerate(value[start : start + _LONGEST_NUMBER], start):
        if byte < 0x80:
            return place + 1
    return len(value)
