"""Options behind the address of a database: the proof that its server gives, and some for the driver.

People write them as several drivers spell them. Each spelling is known, or refused: an option that nobody reads would leave a
password on an open line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum


class ServerProof(Enum):
    """The proof that a server has to give of itself: the values of ``sslMode`` in a URL."""

    UNASKED = ""
    """None is asked for: TLS over a network, and on this machine what the server offers."""

    OFF = "disable"
    NONE = "trust"
    AUTHORITY = "verify-ca"
    NAME = "verify-full"


_STRENGTH = (ServerProof.UNASKED, ServerProof.OFF, ServerProof.NONE, ServerProof.AUTHORITY, ServerProof.NAME)
SSL_MODES = tuple(one.value for one in _STRENGTH[1:])
"""The values that ``sslMode`` may have."""

_MODES: Mapping[str, ServerProof] = {
    **{one.value.replace("-", ""): one for one in _STRENGTH[1:]},
    "disabled": ServerProof.OFF,
    "required": ServerProof.NONE,
    "require": ServerProof.NONE,
    "verifyidentity": ServerProof.NAME,
}
"""The values by the names of MySQL, MariaDB and PostgreSQL, in small letters without joints."""

_FLAGS: Mapping[str, tuple[ServerProof | None, ServerProof | None]] = {
    "usessl": (ServerProof.NONE, None),
    "usetls": (ServerProof.NONE, None),
    "requiressl": (ServerProof.NONE, None),
    "verifyservercertificate": (ServerProof.AUTHORITY, ServerProof.NONE),
    "sslverifycert": (ServerProof.AUTHORITY, ServerProof.NONE),
    "sslverifyservercert": (ServerProof.NAME, ServerProof.NONE),
    "sslverifyidentity": (ServerProof.NAME, ServerProof.NONE),
    "trustservercertificate": (ServerProof.NONE, ServerProof.NAME),
    "disablesslhostnameverification": (ServerProof.AUTHORITY, ServerProof.NAME),
}
"""Older options, each with the meaning of ``true`` and ``false``. None is no TLS, which ``sslMode`` alone can say."""

_AUTHORITIES = ("serversslcert", "sslca", "sslrootcert")
_SOCKETS = ("localsocket", "unixsocket", "socket")
_PASSED = (
    "connectTimeout", "socketTimeout", "tcpKeepAlive", "useCompression", "allowPublicKeyRetrieval", "serverRsaPublicKeyFile",
)  # fmt: skip
"""Options of Spark's driver that change no value and no proof."""

_STORES = re.compile(r"(trust|client)certificate|truststore|keystore|keypassword|sslcert|sslkey|clientssl")
_KNOWN = ("sslMode", "serverSslCert", "localSocket", *_PASSED)
_YES, _NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


class OptionMistake(ValueError):
    """An option that cannot be followed, told by a clause about it and the way out.

    No value is shown.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}; {fix}")
        self.what = what
        self.fix = fix


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The options of a URL.

    ``authority`` is the file of the certificate that signs the server's, ``socket`` that of a server on this machine.
    ``passed`` are options for Spark's driver, in its own spelling.
    """

    proof: ServerProof = ServerProof.UNASKED
    authority: str | None = None
    socket: str | None = None
    passed: tuple[tuple[str, str], ...] = ()


def database_options(text: str) -> DatabaseOptions:
    """Return the options of a URL, which stand behind its question mark: ``sslMode=verify-full``.

    Raises:
        OptionMistake: One is not known, said twice, or contradicts another one.
    """
    mode: ServerProof | None = None
    asked, asks = ServerProof.UNASKED, ""
    places: dict[str, str] = {}
    passed: list[tuple[str, str]] = []
    for name, plain, value in _pairs(text):
        wanted: ServerProof | None = None
        if plain == "sslmode":
            mode = _mode(value)
        elif plain in _FLAGS:
            wanted = _flag(name, plain, value)
        elif plain in _AUTHORITIES:
            places["authority"], wanted = value, ServerProof.AUTHORITY
        elif plain in _SOCKETS:
            places["socket"] = value
        else:
            passed.append((_passed(name, plain), value))
        if wanted is not None and _STRENGTH.index(wanted) > _STRENGTH.index(asked):
            asked, asks = wanted, name
    if mode is not None and _STRENGTH.index(asked) > _STRENGTH.index(mode):
        raise OptionMistake(
            f"its sslMode is less than {asks} asks for", f"write sslMode={asked.value}, or remove {asks}"
        )
    return DatabaseOptions(mode or asked, passed=tuple(passed), **places)


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each option: its name, its name in small letters without joints, and its value.

    Raises:
        OptionMistake: One is said twice, or has no value.
    """
    seen: dict[str, str] = {}
    for one in filter(None, text.split("&")):
        name, _, value = one.partition("=")
        plain = re.sub("[-_]", "", name).lower()
        group = next((names[0] for names in (_AUTHORITIES, _SOCKETS) if plain in names), plain)
        if group in seen:
            raise OptionMistake(f"its options {seen[group]} and {name} say the same thing twice", "keep one of them")
        if not value:
            raise OptionMistake(f"its option {name} has no value", f"write {name}= and the value, or remove it")
        seen[group] = name
        yield name, plain, value


def _mode(value: str) -> ServerProof:
    found = _MODES.get(re.sub("[-_]", "", value).lower())
    if found is None:
        raise OptionMistake("the sslMode of the URL is unknown", f"write one of {', '.join(SSL_MODES)}")
    return found


def _flag(name: str, plain: str, value: str) -> ServerProof:
    said = value.lower()
    if said not in (*_YES, *_NO):
        raise OptionMistake(f"its option {name} is neither true nor false", "write sslMode= and the mode instead")
    asked = _FLAGS[plain][0 if said in _YES else 1]
    if asked is None:
        raise OptionMistake(
            f"its option {name} turns TLS off, so that a password crosses an open line",
            "remove it, or write sslMode=disable if that is meant",
        )
    return asked


def _passed(name: str, plain: str) -> str:
    found = next((one for one in _PASSED if one.lower() == plain), None)
    if found is not None:
        return found
    if _STORES.search(plain):
        raise OptionMistake(
            f"its option {name} is not known, and would prove nothing",
            "name a PEM file with the authority's certificate: serverSslCert=",
        )
    by_plain = {one.lower(): one for one in (*_KNOWN, *_FLAGS)}
    close = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.7)
    hint = f"did you mean {by_plain[close[0]]}?" if close else f"its options are {', '.join(_KNOWN)}"
    raise OptionMistake(f"its option {name} is not known", hint)
