"""A Java that Spark can run on and a free port are found or missed, with a sentence."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dts_assets.errors.machine import MissingJavaError, PortInUseError
from dts_assets.errors.spark import UnreachableMasterError
from dts_assets.store import machine
from dts_assets.store.machine import java_version, require_free_port, require_java, require_master


def put_java(home: Path, command: str) -> None:
    """A Java that is a shell command."""
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{command}\n")
    java.chmod(0o755)


class TestJava:
    @pytest.mark.parametrize(
        ("shown", "version"),
        [
            ('openjdk version "17.0.15" 2025-04-15', 17),
            ('java version "1.8.0_402"', 8),
            ('openjdk version "25" 2025-09-16', 25),
            ("no such thing", None),
        ],
    )
    def test_versions_as_java_prints_them(self, shown: str, version: int | None) -> None:
        assert java_version(shown) == version

    def test_no_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(MissingJavaError, match="none was found"):
            require_java()

    def test_an_old_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        put_java(tmp_path, "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(MissingJavaError, match="this machine has Java 11"):
            require_java()

    def test_a_java_home_without_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(MissingJavaError):
            require_java()

    def test_a_java_that_does_not_answer(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        put_java(tmp_path, "exec sleep 20")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setattr(machine, "_ANSWER_SECONDS", 0.1)
        with pytest.raises(MissingJavaError, match=f"none was found in {tmp_path}, which JAVA_HOME names"):
            require_java()


class TestPorts:
    def test_a_port_that_is_taken(self) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            port = server.getsockname()[1]
            with pytest.raises(PortInUseError, match=f"Port {port} is in use, so Dagster cannot"):
                require_free_port(port, what="Dagster")
        require_free_port(port)

    def test_a_port_of_other_users(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError

        class Refused(socket.socket):
            bind = refuse

        monkeypatch.setattr("dts_assets.store.machine.socket.socket", Refused)
        with pytest.raises(PortInUseError, match=r"Port 80 is kept for other users.*Choose another port"):
            require_free_port(80)


class TestMasters:
    def test_one_of_several_masters_is_enough(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            require_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")

    @pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "yarn", "spark://"])
    def test_nobody_is_asked_where_no_master_is_named(self, master: str) -> None:
        require_master(master)

    @pytest.mark.parametrize(
        "master",
        ["spark://127.0.0.1:1", "k8s://https://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "sc://127.0.0.1:1"],
    )
    def test_a_master_that_is_not_there_is_named(self, master: str) -> None:
        with pytest.raises(UnreachableMasterError, match="connection refused") as caught:
            require_master(master)
        assert master in str(caught.value)
        assert caught.value.retriable, "a master may start again"

    def test_the_token_of_a_server_is_not_shown(self) -> None:
        with pytest.raises(UnreachableMasterError, match=r"No Spark answers at sc://127\.0\.0\.1:1: ") as caught:
            require_master("sc://127.0.0.1:1/;token=hunter2")
        assert "hunter2" not in str(caught.value)

    def test_a_host_that_there_is_not(self) -> None:
        with pytest.raises(UnreachableMasterError, match="No Spark answers at spark://no-such-host"):
            require_master("spark://no-such-host.invalid:7077")
