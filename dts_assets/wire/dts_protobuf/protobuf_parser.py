"""Payloads to Arrow, whichever engine does it: ptars in one call, or protobuf's own parser where ptars is missing or refuses.

ptars fails a whole call without saying which payload it could not read. Then each payload is parsed alone, those that protobuf
refuses as well are set aside by number, and the rest is decoded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from dts_assets.wire.dts_protobuf import Engine
from dts_assets.wire.dts_protobuf.allocation import keep_freed_memory
from dts_assets.wire.dts_protobuf.descriptors import message_class
from dts_assets.wire.dts_protobuf.fallback import batch_of

try:
    import ptars
except ImportError:  # no wheel for this platform
    ptars = None  # type: ignore[assignment]

BEST_ENGINE: Engine = "protobuf" if ptars is None else "ptars"


@cache
def engine_name(engine: Engine | None) -> str:
    """Return an engine with its version, as ``ptars 0.0.25``; None is the best that is installed."""
    chosen = engine or BEST_ENGINE
    return f"{chosen} {version(chosen)}"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One row per payload that could be read, in order; ``kept`` their numbers (None: all), ``poison`` the others'."""

    batch: pa.RecordBatch
    kept: npt.NDArray[np.int64] | None
    poison: tuple[int, ...]


def decode(payloads: pa.Array, descriptor: Descriptor, *, engine: Engine | None = None) -> Decoded:
    """Decode a binary array without nulls as one message each."""
    engine = engine or BEST_ENGINE
    if engine == "ptars":
        batch = _in_one_call(payloads, descriptor)
        if batch is not None:
            return Decoded(batch, None, ())
    good, messages, poison = _parsed(payloads, descriptor)
    kept = np.asarray(good, np.int64) if poison else None
    batch = None
    if engine == "ptars" and poison:
        batch = _in_one_call(payloads.take(pa.array(kept)), descriptor)
    return Decoded(batch_of(messages, descriptor) if batch is None else batch, kept, poison)


@cache
def _handler(descriptor: Descriptor) -> Any:
    keep_freed_memory()
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


def _in_one_call(payloads: pa.Array, descriptor: Descriptor) -> pa.RecordBatch | None:
    try:
        return _handler(descriptor).array_to_record_batch(payloads)
    except ValueError:
        return None
    except BaseException as panic:
        # A panic of a Rust extension is a BaseException of its own, so that nobody catches it by accident.
        if type(panic).__name__ != "PanicException":
            raise
        return None


def _parsed(payloads: pa.Array, descriptor: Descriptor) -> tuple[list[int], list[Message], tuple[int, ...]]:
    parse = message_class(descriptor).FromString
    good: list[int] = []
    messages: list[Message] = []
    poison: list[int] = []
    for number, payload in enumerate(payloads):
        try:
            messages.append(parse(payload.as_py()))
        except DecodeError:
            poison.append(number)
        else:
            good.append(number)
    return good, messages, tuple(poison)
