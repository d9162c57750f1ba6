"""The formats that cases are made in, by what each can tell. A new format is one more line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DTS = "Tencent Cloud, data subscription Kafka edition: consuming the data (571/58779 Protobuf, 571/76107 Avro)"
DRS = "Huawei Cloud, DRS, Kafka Message Format (drs_03_0052)"
CANAL = "Canal, FlatMessage, MQMessageUtils.java and RowsLogBuffer.java; Tencent Cloud, Canal JSON (571/102285)"


@dataclass(frozen=True, slots=True)
class Abilities:
    """The facts about a format that decide which cases it has, and what is right in them.

    ``copies`` says how a message that was sent again is told: by its place in the binlog, by its id, or not at all. ``pieces``
    says that large sets of events are cut into several messages, ``marks`` that there are BEGIN, COMMIT, CHECKPOINT and
    HEARTBEAT, ``absent`` that columns which are not sent are told from NULL, and ``milliseconds`` that fractions of seconds end
    there. ``wall_clock`` says that a TIMESTAMP is a clock of ``source_time_zone``, ``zero_instants`` that a zero TIMESTAMP has
    a text of its own, ``is_json`` that messages are JSON, and ``frames`` that records may stand in frames.
    """

    rule: str
    copies: Literal["position", "id", "nothing"]
    pieces: bool = False
    marks: bool = False
    absent: bool = True
    milliseconds: bool = False
    full_load: bool = False
    wall_clock: bool = False
    zero_instants: bool = True
    is_json: bool = False
    frames: bool = False


ABILITIES: Mapping[str, Abilities] = {
    "dts-protobuf": Abilities(DTS, "position", pieces=True, marks=True),
    "dts-avro": Abilities(DTS, "position", marks=True, milliseconds=True, zero_instants=False),
    "dts-json": Abilities(
        DTS, "position", marks=True, absent=False, milliseconds=True, zero_instants=False, is_json=True
    ),
    "drs-json": Abilities(DRS, "id", full_load=True, zero_instants=False, is_json=True),
    "drs-json-c": Abilities(DRS, "id", full_load=True, wall_clock=True, is_json=True),
    "drs-avro": Abilities(DRS, "id", full_load=True, zero_instants=False, frames=True),
    "canal-json": Abilities(CANAL, "nothing", absent=False, full_load=True, wall_clock=True, is_json=True),
}
