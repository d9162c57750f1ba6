"""Character sets in both directions: every byte of every set, every text, and a real MariaDB for every character."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.wire.columns.texts import decoder, encoder
from dts_assets.wire.ddl.charsets import CHARSETS
from tests.tiers import examples

KNOWN = sorted(name for name in CHARSETS if decoder(name.encode()) is not None)
WITHOUT_CODEC = {"armscii8", "dec8", "geostd8", "keybcs2", "swe7", "eucjpms"}


def test_only_sets_without_a_codec_are_not_known() -> None:
    assert set(KNOWN) == CHARSETS - WITHOUT_CODEC
    assert all(encoder(name.encode()) is None for name in WITHOUT_CODEC)


LEFT_OUT = {
    "big5": "\u02cd\u2574\uffe3", "cp1256": "\u0679\u0688\u0691\u06a9\u06ba\u06be\u06c1\u06d2", "greek": "\u037a\u20ac\u20af",
    "ujis": "\uff3c", "sjis": "\\\uff3c", "cp932": "\x80\uf8f0\uf8f1\uf8f2\uf8f3",
    "ascii": [chr(one) for one in range(128, 1 << 16)],
}  # fmt: skip
"""Characters that servers lack, or have in another place than Python's codecs; without the table they would be wrong rows."""


def encoded(name: str, text: str) -> bytes | None:
    encode = encoder(name.encode())
    assert encode is not None
    try:
        return encode(text)
    except UnicodeEncodeError:
        return None


def decoded(name: str, data: bytes) -> str | None:
    decode = decoder(name.encode())
    assert decode is not None
    try:
        return decode(data)
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("name", KNOWN)
def test_what_bytes_are_read_as_is_written_as_bytes_that_are_read_so(name: str) -> None:
    """All single bytes, and all pairs whose first byte is not ASCII."""
    some = [bytes([byte]) for byte in range(256)]
    some += [
        bytes(pair)
        for pair in product(range(0x80, 0x100, 1 if name in ("gbk", "sjis", "big5", "cp932") else 9), range(256))
    ]
    texts = {data: text for data in some if (text := decoded(name, data)) is not None}
    ways_in: dict[str, set[bytes]] = {}
    for data, text in texts.items():
        ways_in.setdefault(text, set()).add(data)
    assert len(texts) > 100 or name in ("ucs2", "utf16", "utf16le", "utf32")
    for text, ways in ways_in.items():
        made = encoded(name, text)
        if made is None:
            assert len(ways) > 1 or (name in LEFT_OUT and (text in LEFT_OUT[name] or len(text) > 1)), (text, ways)
            continue
        assert decoded(name, made) == text
        assert made in ways or len(made) > 2


@pytest.mark.parametrize("name", KNOWN)
@examples(100)
@given(
    text=st.one_of(
        st.text(),
        st.text(st.characters(max_codepoint=0xFF)),
        st.sampled_from(["\x81", "\0", "🍵", "\ufffe", "~", "\\"]),
    )
)
def test_every_text_becomes_bytes_that_are_read_as_it_or_none(name: str, text: str) -> None:
    made = encoded(name, text)
    assert made is None or decoded(name, made) == text


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    from dts_emulator.errors import ServerUnavailable
    from dts_emulator.source.server import private_server

    try:
        with private_server() as server, server.connect() as connection:
            found = connection.cursor()
            found.execute("CREATE DATABASE sets")
            found.execute("USE sets")
            yield found
    except ServerUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.more
@pytest.mark.database
@pytest.mark.parametrize("name", sorted({*KNOWN} - {"binary", "gb18030"}))  # MariaDB has no gb18030
def test_a_server_writes_every_character_so(cursor: Any, name: str) -> None:
    """All characters up to U+FFFF. One that a server has and that is not written here is not known; it is never another."""
    wide = "CONVERT(CAST(UNHEX(LPAD(HEX(seq), 8, '0')) AS CHAR CHARACTER SET utf32) USING {})"
    cursor.execute(f"SELECT seq, HEX({wide.format(name)}) FROM seq_0_to_65535 WHERE seq NOT BETWEEN 0xD800 AND 0xDFFF")
    lacking = encoded(name, "?")
    wrong, held = [], 0
    for number, digits in cursor.fetchall():
        made = encoded(name, chr(number))
        server = bytes.fromhex(digits)
        if made is not None and made != server:
            wrong.append((hex(number), made.hex(), digits))
        held += made is not None and (server != lacking or number == 0x3F)
    assert wrong == []
    assert held >= 128
