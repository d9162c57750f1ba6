"""Avro object containers: files of records behind a header with their schema (Apache Avro 1.11, "Object Container Files").

A message can be such a file. Its header has the writer's schema and the codec of its blocks; each block ends with the header's
sync marker.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dts_assets.wire.avro.schema import Type

MAGIC = b"Obj\x01"
MOST_BYTES = 32 << 20
"""The most bytes that the blocks of a message may unfold to: Kafka's messages are far smaller."""

_MOST_MEMORY = 128 << 20
"""The most bytes that unfolding xz may take, whatever a block asks for."""

_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"
_SYNC = 16
_MOST_BITS = 63
_DEEPEST = 64
_MOST_ITEMS = 1 << 14
"""Items of an array or map, beyond which it is not read.

Records that are read side by side have this bound, too.
"""

_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class ContainerError(Exception):
    """A message that is no container. Its text is a clause, which names no value."""


class TooMuchError(ContainerError):
    """A container whose blocks unfold to far more than a message may have."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its writer's schema, and the bytes of its blocks with the number of records of each."""

    schema: bytes
    blocks: tuple[tuple[int, bytes], ...]


def read_container(data: bytes) -> Container:
    """Return the content of a container, its blocks unfolded.

    Raises:
        ContainerError: It is none, it is damaged, or its codec is not known.
        TooMuchError: It unfolds to too much.
    """
    meta, at = _header(data)
    codec = meta.get(_CODEC, b"null").decode(errors="replace")
    unfold = _CODECS.get(codec)
    if unfold is None or _SCHEMA not in meta:
        raise ContainerError("its header names no schema, or a codec that is not known")
    sync, at = _cut(data, at, _SYNC)
    room, blocks = MOST_BYTES, []
    while at < len(data):
        count, at = _long(data, at)
        size, at = _long(data, at)
        block, at = _cut(data, at, size)
        mark, at = _cut(data, at, _SYNC)
        if mark != sync or count < 0:
            raise ContainerError("a block does not end with the header's marker")
        try:
            plain = unfold(block, room)
        except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException):
            raise ContainerError("a block cannot be unfolded") from None
        room -= len(plain)
        if room < 0:
            raise TooMuchError(f"its blocks unfold to more than {MOST_BYTES} bytes")
        blocks.append((count, plain))
    return Container(meta[_SCHEMA], tuple(blocks))


def header_of(schema: bytes) -> bytes:
    """Return the header of a container without a codec; equal schemas give equal headers."""
    sync = hashlib.blake2b(schema, digest_size=_SYNC).digest()
    return MAGIC + _number(1) + _sized(_SCHEMA) + _sized(schema) + _number(0) + sync


def one_record(header: bytes, record: bytes) -> bytes:
    """Return a container with one record; ``header`` is that of its schema."""
    return header + _number(1) + _sized(record) + header[-_SYNC:]


def records_of(container: Container, record: Type) -> Iterator[bytes]:
    """Yield the bytes of each record.

    Raises:
        ContainerError: A block is not as many records as it says.
    """
    for count, data in container.blocks:
        if count == 1:  # its end is the block's, which is checked when it is read
            yield data
            continue
        at = 0
        for _ in range(count):
            if at >= len(data):  # a record without bytes would let a few bytes stand for any number of records
                raise ContainerError("a block has fewer records than it says")
            end = _end(record, data, at, 0)
            yield data[at:end]
            at = end
        if at != len(data):
            raise ContainerError("a block has more bytes than its records")


def _header(data: bytes) -> tuple[Mapping[bytes, bytes], int]:
    if not data.startswith(MAGIC):
        raise ContainerError("it does not begin as a container does")
    meta: dict[bytes, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = _long(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            _, at = _long(data, at)
        for _ in range(abs(count)):
            key, at = _bytes(data, at)
            meta[key], at = _bytes(data, at)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _MOST_BITS:
        if at >= len(data):
            raise ContainerError("it ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ContainerError("a number in it does not end")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return _cut(data, at, size)


def _cut(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0 or size > len(data) - at:
        raise ContainerError("it ends too early")
    return data[at : at + size], at + size


def _end(kind: Type, data: bytes, at: int, depth: int) -> int:
    """Return where a value ends.

    Raises:
        ContainerError: It is no value of the type.
    """
    if depth > _DEEPEST:
        raise ContainerError("its values lie too deep in one another")
    name = kind.kind
    if name in _WIDTHS:
        return _cut(data, at, _WIDTHS[name])[1]
    if name == "fixed":
        return _cut(data, at, kind.size)[1]
    if name in ("int", "long", "enum"):
        return _long(data, at)[1]
    if name in ("bytes", "string"):
        return _bytes(data, at)[1]
    if name == "record":
        for field in kind.fields:
            at = _end(field.type, data, at, depth + 1)
        return at
    if name == "union":
        branch, at = _long(data, at)
        if not 0 <= branch < len(kind.items):
            raise ContainerError("a union in it has no such branch")
        return _end(kind.items[branch], data, at, depth + 1)
    return _end_of_list(kind, data, at, depth)


def _end_of_list(kind: Type, data: bytes, at: int, depth: int) -> int:
    total = 0
    while True:
        count, at = _long(data, at)
        if count == 0:
            return at
        if count < 0:
            _, at = _long(data, at)
        total += abs(count)
        if total > _MOST_ITEMS:
            raise ContainerError("a list in it has too many items")
        for _ in range(abs(count)):
            if kind.kind == "map":
                _, at = _bytes(data, at)
            at = _end(kind.items[0], data, at, depth + 1)


def _number(value: int) -> bytes:
    """Return a number from zero on as Avro writes it."""
    value <<= 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _deflate(data: bytes, most: int) -> bytes:
    folded = zlib.decompressobj(-zlib.MAX_WBITS)
    return _whole(folded.decompress(data, most + 1), most, at_end=folded.eof)


def _bzip2(data: bytes, most: int) -> bytes:
    folded = bz2.BZ2Decompressor()
    return _whole(folded.decompress(data, most + 1), most, at_end=folded.eof)


def _xz(data: bytes, most: int) -> bytes:
    folded = lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
    return _whole(folded.decompress(data, most + 1), most, at_end=folded.eof)


def _whole(plain: bytes, most: int, *, at_end: bool) -> bytes:
    if not at_end and len(plain) <= most:
        raise ValueError("it ends too early")
    return plain


def _snappy(data: bytes, most: int) -> bytes:
    """Return what Snappy folded; four bytes behind it are the checksum.

    Raises:
        TooMuchError: It would unfold to too much.
        ValueError: The checksum is another one.
    """
    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise TooMuchError(f"its blocks unfold to more than {MOST_BYTES} bytes")
    plain: bytes = pa.decompress(data[:-4], size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("the checksum is another one")
    return plain


def _zstandard(data: bytes, most: int) -> bytes:
    with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
        plain: bytes = stream.read(most + 1)
    return plain


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, most: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
