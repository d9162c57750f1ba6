"""Texts, bytes and labels as a server converts them from values of any type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dts_assets.stages.keys import Mask, as_mask
from dts_assets.stages.server_numbers import exact_numbers
from dts_assets.stages.server_types import LABELLED, Kind, ServerType
from dts_assets.stages.sql_text import matching, with_nulls
from dts_assets.wire.columns.buffers import offsets_of
from dts_assets.wire.columns.lake_texts import held_as, moment_texts
from dts_assets.wire.columns.texts import UTF8_NAMES, decoder, encoder

_WIDE = frozenset({b"ucs2", b"utf16", b"utf16le", b"utf32"})
"""Character sets of several bytes, into which servers fill up bytes that are too few."""

_PLAIN_REALS = (1e-4, 1e15)
"""Floats between these are written alike by all servers: as plain digits."""


def texts_of(values: pa.Array, old: ServerType, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return the texts that values of any type have, and which of them are not known."""
    none = np.zeros(len(values), np.bool_)
    match old.kind:
        case Kind.TEXT | Kind.ENUM | Kind.SET | Kind.TIME:
            return values, none
        case Kind.WHOLE:
            return _filled(held_as(values, pa.string()), old), none
        case Kind.YEAR:
            if old.declared.numbers == (2,):  # an old form, of which servers show two digits or four
                return pa.nulls(len(values), pa.string()), as_mask(values.is_valid())
            return pc.utf8_lpad(values.cast(pa.string()), 4, "0"), none
        case Kind.DECIMAL | Kind.DATE:
            return held_as(values, pa.string()), none
        case Kind.REAL:
            return _of_reals(values, old)
        case Kind.CLOCK:
            return _of_clocks(values, old.digits), none
        case Kind.BYTES:
            return _of_bytes(values, new)
    return pa.nulls(len(values), pa.string()), as_mask(values.is_valid())


def to_texts(texts: pa.Array, old: ServerType, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return texts as a column of a type keeps them.

    They are cut to its characters, and CHAR has no spaces at the end. Not known are texts with a character that the new character
    set lacks, and texts that are longer than a TEXT.
    """
    if new.length is not None:
        texts = pc.utf8_slice_codeunits(texts, 0, new.length)
    if new.base == "char":
        texts = pc.utf8_rtrim(texts, " ")
    unknown = np.zeros(len(texts), np.bool_)
    if old.kind not in (Kind.TEXT, *LABELLED) or old.charset != new.charset:
        unknown |= _lacking(texts, new.charset)
    if new.most_bytes is not None:
        unknown |= _most_sizes(texts, new.charset) > new.most_bytes
    unknown &= as_mask(texts.is_valid())
    return with_nulls(texts, unknown), unknown


def bytes_of(values: pa.Array, old: ServerType, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return the bytes that values of any type have, and which of them are not known."""
    if old.kind is Kind.BYTES:
        return values, np.zeros(len(values), np.bool_)
    texts, unknown = texts_of(values, old, new)
    if old.charset in UTF8_CHARSETS or old.kind not in (Kind.TEXT, *LABELLED):
        return texts.cast(pa.binary()), unknown
    where = as_mask(texts.is_valid()) & (~_is_ascii(texts) | ((old.charset or "").encode() in _WIDE))
    some = [_encoded(text, old.charset) for text in texts.filter(pa.array(where)).to_pylist()]
    made = pc.replace_with_mask(texts.cast(pa.binary()), pa.array(where), pa.array(some, pa.binary()))
    return made, np.asarray(unknown | (where & as_mask(made.is_null())), np.bool_)


UTF8_CHARSETS = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii"})


def to_bytes(values: pa.Array, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return bytes as a column of a type keeps them: BINARY is filled with zeros. Longer ones are not known."""
    sizes = np.diff(offsets_of(values))
    most = new.length if new.length is not None else new.most_bytes
    unknown = (sizes > most) & as_mask(values.is_valid()) if most is not None else np.zeros(len(values), np.bool_)
    values = with_nulls(values, unknown)
    if new.base == "binary" and most is not None:
        values = pc.binary_slice(pc.binary_join_element_wise(values, bytes(most), b""), 0, most)
    return values, unknown


def to_labels(values: pa.Array, old: ServerType, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return labels of an enum or set from texts or other labels. Texts that are no label are not known."""
    encoded = values.dictionary_encode()
    texts: list[str] = encoded.dictionary.to_pylist()
    find = _in_set if new.kind is Kind.SET else _in_enum
    from_other = old.kind in LABELLED and old.kind is not new.kind
    found = [None if from_other else find(text, new.labels) for text in texts]
    made = pa.array(found, pa.string()).take(encoded.indices)
    return made, as_mask(values.is_valid()) & as_mask(made.is_null())


def labels_of(values: pa.Array, old: ServerType, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return labels of an enum by their numbers, or of a set by their bits. Other numbers are not known."""
    if old.kind is not Kind.WHOLE:
        return pa.nulls(len(values), pa.string()), as_mask(values.is_valid())
    encoded = exact_numbers(values, old).values.dictionary_encode()
    made = pa.array([_numbered(int(one), new) for one in encoded.dictionary.to_pylist()], pa.string()).take(
        encoded.indices
    )
    return made, as_mask(values.is_valid()) & as_mask(made.is_null())


def _numbered(number: int, new: ServerType) -> str | None:
    if new.kind is Kind.ENUM:
        return new.labels[number - 1] if 1 <= number <= len(new.labels) else None
    if not 0 <= number < 1 << len(new.labels):
        return None
    return ",".join(label for place, label in enumerate(new.labels) if number >> place & 1)


def _in_enum(text: str, labels: tuple[str, ...]) -> str | None:
    return text if text in labels else next((one for one in labels if one == text.rstrip(" ")), None)


def _in_set(text: str, labels: tuple[str, ...]) -> str | None:
    some = text.split(",") if text else []
    return None if set(some) - set(labels) else ",".join(label for label in labels if label in some)


def _filled(texts: pa.Array, old: ServerType) -> pa.Array:
    width = old.declared.numbers[0] if old.declared.zerofill and old.declared.numbers else 0
    return pc.utf8_lpad(texts, width, "0") if width else texts


def _of_clocks(values: pa.Array, digits: int) -> pa.Array:
    whole = pc.replace_substring_regex(moment_texts(values), r"\..*$", "")
    if not digits:
        return whole
    fraction = pc.utf8_slice_codeunits(values.cast(pa.string()), 20, 20 + digits)
    return pc.binary_join_element_wise(whole, fraction, ".")


def _of_reals(values: pa.Array, old: ServerType) -> tuple[pa.Array, Mask]:
    """Return texts of floats where all servers write the same digits.

    These have at most six digits of a float, and no exponent.
    """
    size = np.abs(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64))
    plain = (size == 0) | ((size >= _PLAIN_REALS[0]) & (size < _PLAIN_REALS[1]))
    texts = pc.if_else(pa.array(plain), values.cast(pa.string()), pa.scalar(None, pa.string()))
    spelled = [None if text is None else _without_exponent(text) for text in texts.to_pylist()]
    made = pa.array(spelled, pa.string())
    digits = pc.utf8_length(pc.replace_substring_regex(pc.replace_substring_regex(made, r"[-.]", ""), r"^0+|0+$", ""))
    most = 6 if old.base == "float" else 15
    unknown = as_mask(values.is_valid()) & (
        as_mask(made.is_null()) | as_mask(pc.fill_null(pc.greater(digits, most), False))
    )
    unknown |= as_mask(values.is_valid()) & old.is_rounded_real
    return with_nulls(made, unknown), unknown


def _without_exponent(text: str) -> str:
    if "e" not in text:
        return text
    number = format(float(text), ".20f").rstrip("0")
    return number.rstrip(".")


def _of_bytes(values: pa.Array, new: ServerType) -> tuple[pa.Array, Mask]:
    """Return the texts whose bytes in the new character set the values are."""
    name = (new.charset or "").encode()
    read: Callable[[bytes], str] | None = decoder(name) if name and name not in _WIDE else None
    found: list[str | None] = []
    for value in values.to_pylist():
        found.append(None if value is None else _read(value, read if name not in UTF8_NAMES else bytes.decode))
    made = pa.array(found, pa.string())
    return made, as_mask(values.is_valid()) & as_mask(made.is_null())


def _read(value: bytes, read: Callable[[bytes], str] | None) -> str | None:
    try:
        return None if read is None else read(value)
    except UnicodeDecodeError:
        return None


def _is_ascii(texts: pa.Array) -> Mask:
    return as_mask(pc.fill_null(pc.match_substring_regex(texts, r"^[\x00-\x7f]*$"), True))


def _lacking(texts: pa.Array, charset: str | None) -> Mask:
    """Return which texts have a character that a character set lacks, or may lack."""
    if charset in ("utf8mb4", "gb18030"):
        return np.zeros(len(texts), np.bool_)
    if charset in ("utf8", "utf8mb3"):
        return matching(texts, r"[\x{10000}-\x{10FFFF}]")
    odd = ~_is_ascii(texts)
    odd[odd] = [_encoded(text, charset) is None for text in texts.filter(pa.array(odd)).to_pylist()]
    return odd


def _encoded(text: str, charset: str | None) -> bytes | None:
    """Return the bytes of a text in a character set; None where they are not known."""
    encode = encoder(charset.encode()) if charset else None
    try:
        return None if encode is None else encode(text)
    except UnicodeEncodeError:
        return None


def _most_sizes(texts: pa.Array, charset: str | None) -> npt.NDArray[np.int64]:
    """Return the most bytes that each text takes in a character set."""
    if charset in UTF8_CHARSETS or charset is None:
        return np.diff(offsets_of(texts.cast(pa.binary()))).astype(np.int64)
    return 4 * np.asarray(pc.fill_null(pc.utf8_length(texts), 0), np.int64)
