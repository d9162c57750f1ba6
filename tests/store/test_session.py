"""Where the lake is and how engines are told: settings, and one clear sentence where something is missing."""

from __future__ import annotations

import pickle
import re
import sys
import tempfile
from pathlib import Path

import pytest

from dts_assets.errors import UnwritableLakeError
from dts_assets.errors.damage import DamagedCatalogError
from dts_assets.errors.spark import ExecutorPythonError, UnreachableMasterError
from dts_assets.settings.environment import executors_python
from dts_assets.store.catalog import LakeLocation, open_catalog, spark_catalog_conf
from dts_assets.store.package import package_archive
from dts_assets.store.session import prepare_process, spark_conf


class TestLocation:
    def test_it_can_be_sent_and_shows_no_secret(self) -> None:
        lake = LakeLocation("s3://bucket/lake", {"type": "rest", "uri": "http://h", "s3.secret-access-key": "hush"})
        assert pickle.loads(pickle.dumps(lake)) == lake
        assert "hush" not in repr(lake)

    def test_spark_and_pyiceberg_are_told_the_same_place(self, tmp_path: Path) -> None:
        lake = LakeLocation(str(tmp_path / "my lake"))
        conf = spark_catalog_conf(lake)
        catalog = open_catalog(lake)
        assert conf["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/my lake/catalog.db?busy_timeout=60000"
        assert (
            conf["spark.sql.catalog.lake.warehouse"] == catalog.properties["warehouse"] == f"file://{tmp_path}/my lake"
        )
        assert conf["spark.sql.catalog.lake.cache-enabled"] == "false"
        assert catalog.name == "lake"
        assert (tmp_path / "my lake" / "catalog.db").exists()

    def test_other_catalogs_are_passed_through(self) -> None:
        conf = spark_catalog_conf(LakeLocation("s3://bucket/lake", {"type": "rest", "uri": "http://h:8181"}))
        assert conf["spark.sql.catalog.lake.type"] == "rest"
        assert conf["spark.sql.catalog.lake.uri"] == "http://h:8181"
        assert "sqlite" not in conf["spark.jars.packages"]

    def test_a_sqlite_catalog_needs_a_local_disk(self, tmp_path: Path) -> None:
        with pytest.raises(UnwritableLakeError, match="local disk"):
            open_catalog(LakeLocation("s3://bucket/lake"))
        named = LakeLocation("s3://bucket/lake", {"uri": str(tmp_path / "c.db")})
        assert named.database == tmp_path / "c.db"

    def test_a_file_in_the_place_of_the_warehouse(self, tmp_path: Path) -> None:
        (tmp_path / "lake").write_text("")
        with pytest.raises(UnwritableLakeError, match=r"cannot be written: there is a file of that name\."):
            open_catalog(LakeLocation(str(tmp_path / "lake")))

    def test_a_warehouse_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(UnwritableLakeError, match="file is a file"):
            open_catalog(LakeLocation(str(tmp_path / "file" / "lake")))

    def test_a_warehouse_that_must_not_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(**_: object) -> None:  # the tests may run as root, who may write anywhere
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(UnwritableLakeError, match="permission denied"):
            open_catalog(LakeLocation(str(tmp_path / "lake")))

    def test_a_catalog_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "catalog.db").write_bytes(b"this is no database, but it is long enough to be looked at" * 100)
        with pytest.raises(DamagedCatalogError, match=r"catalog\.db of the lake is damaged"):
            open_catalog(LakeLocation(str(tmp_path)))


class TestSettings:
    lake = LakeLocation("/lake")

    def test_the_user_has_the_last_word(self) -> None:
        conf = spark_conf(self.lake, {"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "8g"})
        assert (conf["spark.sql.shuffle.partitions"], conf["spark.driver.memory"]) == ("8", "8g")
        assert conf["spark.sql.session.timeZone"] == "UTC"
        assert conf["spark.master"] == "local[2]"

    def test_packages_and_extensions_are_joined(self) -> None:
        conf = spark_conf(self.lake, {"spark.jars.packages": "a:b:1", "spark.sql.extensions": "x.Y"})
        packages = conf["spark.jars.packages"].split(",")
        assert packages[-1] == "a:b:1"
        assert len(packages) == 3
        assert conf["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions,x.Y")

    def test_packages_that_were_fetched_are_named_by_path_on_a_local_master(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dts_assets.store.jars.FETCHED", tmp_path)
        packages = spark_catalog_conf(self.lake)["spark.jars.packages"].split(",")
        jars = [tmp_path / f"{'_'.join(one.split(':')[:2])}-{one.split(':')[2]}.jar" for one in packages]
        jars[0].write_bytes(b"")
        assert spark_conf(self.lake)["spark.jars.packages"] == ",".join(packages), "one of them is not there"
        jars[1].write_bytes(b"")
        conf = spark_conf(self.lake, {"spark.driver.extraClassPath": "/mine.jar"})
        assert conf["spark.driver.extraClassPath"] == ":".join([*map(str, jars), "/mine.jar"])
        assert "spark.jars.packages" not in conf
        assert "spark.jars.packages" in spark_conf(self.lake, master="spark://host:7077"), "executors fetch their own"
        assert "spark.jars.packages" in spark_conf(self.lake, {"spark.jars.ivy": "/elsewhere"})
        assert "a:b:1" in spark_conf(self.lake, {"spark.jars.packages": "a:b:1"})["spark.jars.packages"]

    def test_sparks_own_log_is_kept_short_unless_the_user_logs_otherwise(self) -> None:
        quiet = self.options("-Xss4m")
        assert re.fullmatch(r"-Dlog4j2\.configurationFile=file:///\S+/log4j2\.properties", quiet[0])
        assert quiet[-1] == "-Xss4m"
        assert "log4j2.properties" not in " ".join(self.options("-Dlog4j2.configurationFile=mine.xml"))
        assert "spark.driver.extraJavaOptions" not in spark_conf(self.lake, master="sc://host:15002")

    def test_a_local_jvm_starts_quickly_and_the_users_options_win(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dts_assets.store.session.CLASS_ARCHIVE", tmp_path / "none.jsa")
        own = self.options("-XX:TieredStopAtLevel=4")
        assert own.index("-XX:TieredStopAtLevel=1") < own.index("-XX:TieredStopAtLevel=4"), "Java takes the last one"
        assert not [option for option in own if option.startswith("-XX:SharedArchiveFile")], "there is no archive"
        (tmp_path / "none.jsa").write_bytes(b"")
        assert [option for option in self.options("") if option.startswith("-XX:SharedArchiveFile")]

    @pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
    def test_a_cluster_starts_as_quickly_and_gets_dts_assets_itself(self, master: str) -> None:
        own = {
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=4",
            "spark.submit.pyFiles": "/mine.zip",
            "spark.executorEnv.PYTHONPATH": "mine.zip",
        }
        conf = spark_conf(self.lake, own, master=master)
        assert conf["spark.python.daemon.module"] == "dts_assets.flows.spark_daemon"
        for side in ("driver", "executor"):
            assert "-XX:TieredStopAtLevel=1" in conf[f"spark.{side}.extraJavaOptions"].split()
        assert conf["spark.executor.extraJavaOptions"].split()[-1] == "-XX:TieredStopAtLevel=4", (
            "Java takes the last one"
        )
        archive, mine = conf["spark.submit.pyFiles"].split(",")
        assert Path(archive) == package_archive()
        assert mine == "/mine.zip"
        assert conf["spark.executorEnv.PYTHONPATH"] == f"{package_archive().name}:mine.zip"
        assert "spark.jars.packages" in conf, "its executors are processes of their own"

    def test_a_local_master_needs_no_package_and_a_cluster_no_limit_of_small_machines(self) -> None:
        local = spark_conf(self.lake)
        assert not local.keys() & {"spark.submit.pyFiles", "spark.executorEnv.PYTHONPATH"}
        assert local["spark.sql.shuffle.partitions"] == "4"
        for master in ("spark://host:7077", "sc://host:15002"):
            assert "spark.sql.shuffle.partitions" not in spark_conf(self.lake, master=master), "it follows the cores"
            conf = spark_conf(self.lake, {"spark.sql.shuffle.partitions": "9"}, master=master)
            assert conf["spark.sql.shuffle.partitions"] == "9"

    def test_the_users_daemon_wins(self) -> None:
        own = {"spark.python.daemon.module": "pyspark.daemon"}
        assert spark_conf(self.lake, own, master="yarn")["spark.python.daemon.module"] == "pyspark.daemon"

    def options(self, own: str, *, master: str = "local[2]") -> list[str]:
        conf = spark_conf(self.lake, {"spark.driver.extraJavaOptions": own}, master=master)
        return conf["spark.driver.extraJavaOptions"].split()

    def test_a_connect_address_is_a_remote(self) -> None:
        conf = spark_conf(self.lake, master="sc://host:15002")
        assert conf["spark.remote"] == "sc://host:15002"
        assert "spark.master" not in conf


class TestProcess:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dts_assets.store.session.require_java", lambda: None)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
            monkeypatch.setenv(name, "")  # so that it is put back
            monkeypatch.delenv(name)

    def test_workers_have_the_python_of_this_process_unless_somebody_names_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prepare_process()
        assert executors_python() == sys.executable
        monkeypatch.setenv("PYSPARK_PYTHON", "/of/the/environment")
        prepare_process()
        assert executors_python() == "/of/the/environment"
        prepare_process("yarn", {"spark.pyspark.python": "/of/the/configuration"})
        assert executors_python() == "/of/the/configuration", "as Spark's own rule is"

    def test_a_python_that_this_machine_lacks_is_refused_where_it_would_run_here(self) -> None:
        own = {"spark.pyspark.python": "/gone/python"}
        with pytest.raises(ExecutorPythonError, match="/gone/python: there is no such program on this machine"):
            prepare_process("local[2]", own)
        prepare_process("yarn", own)
        prepare_process("local[2]", {"spark.pyspark.python": Path(sys.executable).name})

    def test_a_master_that_does_not_answer_is_found_before_a_jvm_starts(self) -> None:
        with pytest.raises(UnreachableMasterError, match=r"spark://127\.0\.0\.1:1: connection refused"):
            prepare_process("spark://127.0.0.1:1")
