"""The files of a Kafka broker: its jars, its settings, its certificate.

The jars are those of the Maven coordinates below with all that they need at run time, as ``scripts/fetch_broker.py`` puts them
into the environment. Secrets stand in files that only their owner can read, never in the arguments of a process.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dts_emulator.errors import BrokerUnavailable
from dts_emulator.machine.ports import HOST
from dts_emulator.machine.process_environment import java_home

COORDINATES = (
    "org.apache.kafka:kafka_2.13:4.2.0",
    # Without a binding for its logging facade the broker runs, but says nothing of why it does not.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
)
"""Maven's names of the broker."""

JARS = Path(sys.prefix) / "share" / "dts-assets" / f"kafka-{COORDINATES[0].rpartition(':')[2]}"
"""The folder that the set-up puts them into."""

LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
"""Each is named as its protocol is."""

MECHANISMS = ("SCRAM-SHA-512", "PLAIN")
"""Of both SASL listeners."""

_CONTROLLER = "CONTROLLER"
_STORE = "broker.p12"
CERTIFICATE = "ca.pem"
_STORE_PASSWORD = "store-password"
_SMALL = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")

_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": _CONTROLLER,
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": "8388608",
    "replica.fetch.max.bytes": "8388608",
    # Messages keep the times that they were given, past and future, and none is deleted for its age unless a topic says so.
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    # How long a broker that was killed counts as alive; until then its next start waits. Kafka's own 9 s are for a network.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a broker, all on the loopback interface."""

    controller: int
    of: Mapping[str, int]
    """By listener."""


def java_program(name: str = "java") -> str:
    """Return the path of Java's program ``name``: below JAVA_HOME, else on the path.

    Raises:
        BrokerUnavailable: There is none.
    """
    home = java_home()
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        place = f"below JAVA_HOME ({home})" if home else "on the path"
        raise BrokerUnavailable(
            f"there is no {name} {place}: install a Java runtime 17 or newer, or point JAVA_HOME at one"
        )
    return found


def class_path() -> str:
    """Return Java's class path of the broker.

    Raises:
        BrokerUnavailable: The jars have not been fetched.
    """
    if not JARS.is_dir():
        raise BrokerUnavailable(
            f"the jars of Kafka are not in {JARS}: run make setup, or {sys.executable} scripts/fetch_broker.py in the checkout"
        )
    return f"{JARS}/*"


def free_ports() -> Ports:
    """Return ports that nobody listens on now, below those of outgoing connections, which come and go."""
    chosen: list[int] = []
    while len(chosen) < len(LISTENERS) + 1:
        port = random.randrange(10_240, 32_768)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port not in chosen:
            chosen.append(port)
    return Ports(chosen[0], dict(zip(LISTENERS, chosen[1:], strict=True)))


def write_settings(folder: Path, ports: Ports, users: Mapping[str, str], settings: Mapping[str, str]) -> Path:
    """Write the broker's ``server.properties`` into ``folder``, and the settings of its log beside it.

    ``users`` are the names and passwords of the mechanism PLAIN; those of SCRAM are kept by the broker. ``settings`` are Kafka's
    own names and replace ours.
    """
    named = {**ports.of, _CONTROLLER: ports.controller}
    lines = {
        **_SETTINGS,
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in named.items()),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.of.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == _CONTROLLER else name}" for name in named
        ),
        "log.dirs": str(folder / "data"),
    }
    plain = " ".join(f"user_{name}={_quoted(password)}" for name, password in users.items())
    for listener in ("sasl_plaintext", "sasl_ssl"):
        login = f"listener.name.{listener}.{{}}.sasl.jaas.config"
        lines[login.format("plain")] = f"org.apache.kafka.common.security.plain.PlainLoginModule required {plain};"
        lines[login.format("scram-sha-512")] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for listener in ("sasl_ssl", "ssl"):
        lines[f"listener.name.{listener}.ssl.keystore.type"] = "PKCS12"
        lines[f"listener.name.{listener}.ssl.keystore.location"] = str(folder / _STORE)
        lines[f"listener.name.{listener}.ssl.keystore.password"] = (folder / _STORE_PASSWORD).read_text()
    path = folder / "server.properties"
    write_private(path, "".join(f"{name}={_escaped(value)}\n" for name, value in (lines | dict(settings)).items()))
    (folder / "log4j2.yaml").write_text(
        "Configuration:\n"
        "  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: '[%d] %p %m (%c)%n'}}}\n"
        "  Loggers: {Root: {level: WARN, AppenderRef: [{ref: STDOUT}]}}\n"
    )
    return path


def make_certificate(folder: Path) -> subprocess.Popen[bytes] | None:
    """Begin to make the broker's key and a certificate that signs itself; None if they are there. See :func:`end_certificate`."""
    if (folder / CERTIFICATE).exists():
        return None
    (folder / _STORE).unlink(missing_ok=True)
    write_private(folder / _STORE_PASSWORD, secrets.token_urlsafe(16))
    return subprocess.Popen(
        [
            java_program("keytool"), *_SMALL, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650",
            "-alias", "broker", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc=ca:true",
            *_store(folder),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def end_certificate(folder: Path, making: subprocess.Popen[bytes] | None) -> None:
    """Wait for the certificate and write it for clients, which have to trust it.

    Raises:
        BrokerUnavailable: Java's keytool has failed.
    """
    if making is None:
        return
    said, _ = making.communicate()
    if making.returncode == 0:
        command = [java_program("keytool"), *_SMALL, "-exportcert", "-rfc", "-alias", "broker", *_store(folder)]
        exported = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if exported.returncode == 0:
            (folder / CERTIFICATE).write_bytes(exported.stdout)
            return
        said = exported.stdout
    raise BrokerUnavailable(f"keytool could not make a certificate: {said.decode(errors='replace').strip()}")


def _store(folder: Path) -> tuple[str, ...]:
    return ("-storetype", "PKCS12", "-keystore", str(folder / _STORE), "-storepass:file", str(folder / _STORE_PASSWORD))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also while it is written."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)


def _quoted(text: str) -> str:
    """Return a value of Java's login configuration, whose quotes take C's escapes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(value: str) -> str:
    """Return a value of a Java properties file: ASCII, one line."""
    units = value.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code <= 0x7E and code != 0x5C else f"\\u{code:04x}" for code in codes)
