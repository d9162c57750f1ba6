"""The wire formats by the names that ``pipeline.yaml`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dts_assets.errors import WireFormatError
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat

_READY: Mapping[str, Callable[[str], WireFormat]] = MappingProxyType(
    {"dts-protobuf": lambda zone: DtsProtobuf(), "drs-json-c": DrsJsonC}
)
_PLANNED = ("dts-avro", "dts-json", "drs-avro", "drs-json")


def wire_format(name: str, *, source_time_zone: str = "+00:00") -> WireFormat:
    """The wire format of that name. Raises WireFormatError if there is none, or none yet.

    ``source_time_zone`` (``+08:00`` or ``Asia/Shanghai``) is for formats whose instants carry no zone; DTS Protobuf's do.
    """
    made = _READY.get(name)
    if made is not None:
        return made(source_time_zone)
    ready = ", ".join(_READY)
    if name in _PLANNED:
        raise WireFormatError(name, f"this version cannot decode it yet; it decodes {ready}")
    raise WireFormatError(name, f"there is no format of that name; this version decodes {ready}")
