"""The wire formats by the names that ``pipeline.yaml`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dts_assets.errors import WireFormatError
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat

_READY: Mapping[str, Callable[[], WireFormat]] = MappingProxyType({"dts-protobuf": DtsProtobuf})
_PLANNED = ("dts-avro", "dts-json", "drs-avro", "drs-json", "drs-json-c")


def wire_format(name: str) -> WireFormat:
    """The wire format of that name. Raises WireFormatError if there is none, or none yet."""
    made = _READY.get(name)
    if made is not None:
        return made()
    ready = ", ".join(_READY)
    if name in _PLANNED:
        raise WireFormatError(name, f"this version cannot decode it yet; it decodes {ready}")
    raise WireFormatError(name, f"there is no format of that name; this version decodes {ready}")
