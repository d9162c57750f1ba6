"""Spark's JVM gets its settings by a file that has no name, whatever is in them, and by no argument."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from dts_assets.errors.machine import MissingJarsError
from dts_assets.settings.environment import changed_variables
from dts_assets.store.jvm import properties_text, start_jvm

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
SECRET = {"spark.sql.catalog.lake.token": "hush"}


class Launched:
    """What would be launched: the arguments, the text of the file, and who may read it."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.text = ""

    def launch(self, popen_kwargs: dict[str, Any]) -> SimpleNamespace:
        self.arguments = shlex.split(os.environ[ARGUMENTS])
        path = Path(self.arguments[self.arguments.index("--properties-file") + 1])
        assert path.stat().st_mode & 0o077 == 0 or not path.resolve().exists(), "nobody else finds it"
        assert popen_kwargs == {"pass_fds": (int(path.name),) if path.parts[1] == "proc" else ()}
        self.text = path.read_text()
        return SimpleNamespace(jvm="a JVM")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launched:
    """No JVM is started, and the session of other tests stays as it is."""
    found = Launched()
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", found.launch)
    for name in ("_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv(ARGUMENTS, raising=False)
    return found


def test_settings_are_no_arguments_and_the_file_goes(launched: Launched) -> None:
    start_jvm(SECRET, master="local[2]")
    assert launched.arguments[::2] == ["--properties-file", "pyspark-shell"]
    assert launched.text == "spark.sql.catalog.lake.token=hush\n"
    assert not Path(launched.arguments[1]).exists()
    assert ARGUMENTS not in os.environ
    assert SparkContext._jvm == "a JVM"


def test_a_system_without_files_in_memory_removes_the_file(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    start_jvm(SECRET, master="local[2]")
    assert launched.text == "spark.sql.catalog.lake.token=hush\n"
    assert not Path(launched.arguments[1]).exists()


def test_a_jvm_that_runs_stays_and_a_server_needs_none(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    start_jvm(SECRET, master="sc://host:15002")
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
    start_jvm(SECRET, master="local[2]")
    assert launched.arguments == []


def test_defaults_of_a_machine_come_first_and_a_persons_arguments_stay(launched: Launched, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.local.dir  /fast\nspark.master yarn")
    with changed_variables({ARGUMENTS: "--driver-cores 3 pyspark-shell"}):
        start_jvm({"spark.master": "local[2]"}, master="local[2]")
        assert os.environ[ARGUMENTS] == "--driver-cores 3 pyspark-shell"
    assert launched.text == "spark.local.dir  /fast\nspark.master yarn\nspark.master=local\\[2]\n".replace("\\[", "[")
    assert launched.arguments[:2] == ["--driver-cores", "3"]
    assert launched.arguments[-1] == "pyspark-shell"


@pytest.mark.parametrize("form", ["--properties-file {}", "--properties-file={}"])
def test_a_persons_own_file_of_properties_is_read_first(launched: Launched, tmp_path: Path, form: str) -> None:
    (own := tmp_path / "own.conf").write_text("spark.local.dir=/mine\n")
    (tmp_path / "spark-defaults.conf").write_text("spark.local.dir=/fast\n")
    with changed_variables({ARGUMENTS: f"{form.format(own)} pyspark-shell"}):
        start_jvm({"spark.a": "b"}, master="local[2]")
    assert launched.text == "spark.local.dir=/mine\n\nspark.a=b\n"
    assert launched.arguments.count("--properties-file") == 1


def test_a_failure_leaves_neither_variable_nor_file(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(popen_kwargs: dict[str, Any]) -> None:
        launched.launch(popen_kwargs)
        raise RuntimeError("no JVM")

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", fail)
    with pytest.raises(RuntimeError, match="no JVM"):
        start_jvm(SECRET, master="local[2]")
    assert ARGUMENTS not in os.environ
    assert not Path(launched.arguments[1]).exists()


ODD = {
    "spark.odd.plain": "a=b:c#d!e\\f",
    "spark.odd.comment": "#first !second",
    "spark.odd.unicode": "naïve 秘密 🔑 \\u0041",
    "spark.odd.lines": "one\ntwo\tthree\r\nfour",
    "spark.odd.quotes": "'single' \"double\" $HOME `id` ${x}",
    "spark.odd.name with = and : in it": "x",
    "spark.odd.empty": "",
}
_ASK = """\
import json, sys
from pyspark import SparkContext
from dts_assets.store.jvm import start_jvm
odd = json.load(sys.stdin)
start_jvm({"spark.driver.memory": "300m", **odd}, master="local[1]")
java = SparkContext._jvm.java.lang
print(json.dumps([{name: java.System.getProperty(name) for name in odd}, java.Runtime.getRuntime().maxMemory() >> 20]))
"""


def test_lines_of_properties() -> None:
    assert properties_text({"a b": "c = d\n"}) == "a\\ b=c\\ \\=\\ d\\n\n"


@pytest.mark.spark
@pytest.mark.more
def test_a_jvm_reads_every_value_as_it_was_written() -> None:
    asked = [sys.executable, "-c", _ASK]
    done = subprocess.run(asked, input=json.dumps(ODD), capture_output=True, text=True, check=True)
    found, memory = json.loads(done.stdout)
    assert found == ODD
    assert 250 < memory < 350, "the launcher has read them, too"


def test_a_jvm_that_ended_since_its_jars_are_missing_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(**_: Any) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", ended)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr("dts_assets.store.jars.FETCHED", tmp_path)
    (tmp_path / "a_b-1.jar").touch()
    with pytest.raises(MissingJarsError, match=r"not in .*: c:d:2\. "):
        start_jvm({"spark.jars.packages": "a:b:1,c:d:2"}, master="local[1]")
    for conf in ({}, {"spark.jars.packages": "c:d:2", "spark.jars.ivy": "/elsewhere"}):
        with pytest.raises(PySparkRuntimeError):
            start_jvm(conf, master="local[1]")
