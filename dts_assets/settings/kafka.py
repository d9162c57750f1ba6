"""Settings of the Kafka client library, checked before anything connects.

The library itself says which settings and values it knows: a client is made without an address, so it connects nowhere. Settings
that would change what reading means are refused, and files are named relative to the configuration.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic_core import CoreSchema, core_schema

from dts_assets.settings.values import VALUE, Hidden, is_port, mistake

_REMOVE = "remove the key"
_REFUSED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("bootstrap.servers", "metadata.broker.list"),
        ("the addresses stand beside config", "write bootstrap_servers: there"),
    ),
    "group.id": ("the group stands beside config", "write group_id: there"),
    "auto.offset.reset": ("windows are read from their own offsets, and one that is gone is an error", _REMOVE),
    "isolation.level": ("only committed messages are read", _REMOVE),
    "enable.partition.eof": ("reading to the end of a window rests on it", _REMOVE),
    **dict.fromkeys(
        ("enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms", "enable.auto.offset.store"),
        ("offsets are committed when a window is stored, and nothing else may commit them", _REMOVE),
    ),
    **dict.fromkeys(
        ("group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy"),
        ("no consumer group is joined, so it would do nothing", _REMOVE),
    ),
}
_OF_PROGRAMS = re.compile(r".*_cb|logger|on_commit|default\.topic\.config|plugin\.library\.paths|opaque")
"""Settings that take a piece of a program, which a file cannot name."""

_COMMON = (
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem",
    "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification", "client.id", "client.rack",
    "socket.timeout.ms", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes", "queued.max.messages.kbytes",
    "receive.message.max.bytes", "broker.address.family", "debug", "log_level",
)  # fmt: skip
_SEE_THE_LIST = "see the list of librdkafka's settings (CONFIGURATION.md)"
_LOGINS = {
    "sasl.username": "write sasl.username: and the account's",
    "sasl.password": 'write sasl.password: "${NAME}" and set NAME in the environment, so that the password is in no file',
}
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_TLS = re.compile(r"ssl\.|enable\.ssl\.")
_FILE = re.compile(r"ssl\.\w+\.location")
_NAMED = re.compile(r'configuration property:? "([^"]+)"')
_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')
_RANGE = re.compile(r"allowed range (\S+)\.\.(\S+)")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


class ClientSettings(Hidden):
    """The librdkafka settings; keys that would break the project's promises are refused one by one."""

    __slots__ = ()

    @classmethod
    def _keys(cls) -> CoreSchema:
        return core_schema.no_info_after_validator_function(_allowed, core_schema.str_schema())


def addresses(servers: str) -> str:
    """Return bootstrap addresses, ``host:port`` with commas between them, as they are.

    Raises:
        mistake: the text is no list of addresses.
    """
    for one in servers.split(","):
        found = _ADDRESS.fullmatch(one.strip())
        if found is None:
            raise mistake(f"{VALUE} is no list of addresses", "write host:port, several with commas between them")
        if found.group(2) and not is_port(found.group(2)[1:]):
            raise mistake(f"{VALUE} has a port that there cannot be", "write host:port with a port from 1 to 65535")
    return servers


def checked(config: ClientSettings, folder: Path) -> ClientSettings:
    """Return the settings with absolute files, or raise the first mistake that the library finds in them together."""
    if not config:
        return config
    found = ClientSettings({key: _absolute(key, value, folder) for key, value in config.items()})
    _check_login(found)
    _check_with_library(found)
    _check_tls(found, found.get("security.protocol", "plaintext").lower())
    return found


def _allowed(key: str) -> str:
    if key in _REFUSED:
        raise mistake(*_REFUSED[key])
    if _OF_PROGRAMS.fullmatch(key):
        raise mistake("it names a piece of a program, and a file cannot", _REMOVE)
    return key


def _absolute(key: str, value: str, folder: Path) -> str:
    if not _FILE.fullmatch(key) or not value or value == "probe":
        return value
    return str((folder / Path(value).expanduser()).resolve())


def _check_login(config: Mapping[str, str]) -> None:
    """Refuse a login that is half configured, which the library would say less clearly or not at all.

    Raises:
        mistake: a part of the login is missing or not known.
    """
    protocol = config.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise mistake(f"{VALUE} is no protocol", f"write one of {', '.join(_PROTOCOLS)}", at=("security.protocol",))
    named = next((key for key in ("sasl.mechanism", "sasl.mechanisms") if key in config), None)
    given = [key for key in ("sasl.username", "sasl.password") if key in config]
    if not protocol.startswith("sasl"):
        if named or given:
            raise mistake(
                f"a login is configured, and security.protocol is {'not said' if protocol == 'plaintext' else 'ssl'}",
                "write security.protocol: sasl_plaintext, or sasl_ssl where the port is encrypted",
                at=(named or given[0],),
            )
        return
    if named is None:
        raise mistake(
            "no SASL mechanism is named", "write sasl.mechanism: SCRAM-SHA-512, or PLAIN", at=("security.protocol",)
        )
    mechanism = config[named].upper()
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM"):
        for key in ("sasl.username", "sasl.password"):
            if not config.get(key):
                raise mistake(f"{key} is missing or empty", _LOGINS[key], at=(named,))


def _check_tls(config: Mapping[str, str], protocol: str) -> None:
    """Refuse settings of TLS on a line without it, where the library takes them and does nothing.

    Raises:
        mistake: There is such a setting.
    """
    named = next((key for key in config if _TLS.match(key)), None)
    if named is not None and protocol not in ("ssl", "sasl_ssl"):
        what = "not said" if "security.protocol" not in config else protocol
        wanted = "sasl_ssl" if protocol.startswith("sasl") else "ssl"
        raise mistake(
            f"TLS is configured, and security.protocol is {what}, so that the line is open",
            f"write security.protocol: {wanted}, or remove the key",
            at=(named,),
        )


def _check_with_library(config: Mapping[str, str]) -> None:
    """Ask the client library whether it takes the settings; no answer is shown that could hold a value.

    Raises:
        _mistake_of: the library refuses a setting.
    """
    if config.get("sasl.mechanism", config.get("sasl.mechanisms", "")).upper() == "OAUTHBEARER":
        # A client would ask for its token at once, so that of a login its names alone are looked at.
        config = {key: value for key, value in config.items() if not key.startswith("sasl.")} | {
            "security.protocol": "ssl" if config["security.protocol"].lower() == "sasl_ssl" else "plaintext"
        }
    from confluent_kafka import Consumer, KafkaException

    try:
        Consumer({"log_level": "0", **config, "group.id": "check"})
    except KafkaException as error:
        raise _mistake_of(error.args[0].str(), config) from None


def _mistake_of(said: str, config: Mapping[str, str]) -> Exception:
    if unknown := _UNKNOWN.search(said):
        close = difflib.get_close_matches(unknown.group(1), _COMMON, n=1)
        return mistake(
            "the Kafka client library has no such setting",
            f"did you mean {close[0]}?" if close else _SEE_THE_LIST,
            at=(unknown.group(1),),
        )
    named = _NAMED.search(said)
    key = named.group(1) if named else next((key for key in sorted(config, key=len, reverse=True) if key in said), None)
    if "SASL mechanism" in said:
        key = next((one for one in ("sasl.mechanism", "sasl.mechanisms") if one in config), key)
        return mistake(
            f"{VALUE} is no SASL mechanism that this client has", "write SCRAM-SHA-512 or PLAIN", at=(key or "",)
        )
    if key is None or key not in config:
        return mistake("the Kafka client library refuses these settings together", "check them one by one")
    if _FILE.fullmatch(key):
        return mistake(f"the file {VALUE} cannot be used", "name a readable file of the right kind", at=(key,))
    allowed = _RANGE.search(said)
    fix = f"write a number from {allowed.group(1)} to {allowed.group(2)}" if allowed else _SEE_THE_LIST
    return mistake(f"{VALUE} cannot be its value", fix, at=(key,))
