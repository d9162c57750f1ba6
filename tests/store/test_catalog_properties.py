"""Which engine gets which property of the catalog, in one table; and what a store that is not Amazon's asks of clients."""

from __future__ import annotations

import re

import pytest

from dts_assets.store.catalog import LakeLocation, spark_catalog_conf
from dts_assets.store.catalog_properties import (
    CHECKSUM_VARIABLES,
    bundle_of,
    checksum_environment,
    checksum_options,
    for_pyiceberg,
    for_spark,
    of_file_stores,
)
from dts_assets.store.session import spark_conf

BOTH, TASKS = "pyiceberg and Spark", "pyiceberg, Spark and tasks"
PLACES = {
    "uri": BOTH,
    "token": BOTH,
    "credential": BOTH,
    "oauth2-server-uri": BOTH,
    "header.X-Tenant": BOTH,
    "warehouse": BOTH,
    "s3.endpoint": TASKS,
    "s3.access-key-id": TASKS,
    "s3.secret-access-key": TASKS,
    "s3.session-token": TASKS,
    "s3.path-style-access": TASKS,
    "client.region": TASKS,
    "gcs.oauth2.token": TASKS,
    "adls.sas-token.account": TASKS,
    "hdfs.host": TASKS,
    "io-impl": "Spark",
    "catalog-impl": "Spark",
    "jdbc.schema-version": "Spark",
    "py-io-impl": "pyiceberg and tasks",
    "py-catalog-impl": "pyiceberg",
}
"""Every kind of property, and who gets it."""


@pytest.mark.parametrize(("name", "place"), PLACES.items())
def test_a_property_goes_where_it_is_understood(name: str, place: str) -> None:
    given = {name: "value"}
    assert (for_pyiceberg(given).get(name) == "value") == ("pyiceberg" in place)
    assert (for_spark(given, scheme="file").get(name) == "value") == ("Spark" in place)
    assert (of_file_stores(for_pyiceberg(given)) == given) == ("tasks" in place)


@pytest.mark.parametrize(
    ("given", "pyiceberg", "spark"),
    [
        ({"s3.region": "ap-guangzhou"}, {}, {"client.region": "ap-guangzhou"}),
        ({"type": "rest"}, {}, {"header.X-Iceberg-Access-Delegation": "vended-credentials"}),
        ({"type": "rest", "header.X-Iceberg-Access-Delegation": "remote-signing"}, {}, {}),
        ({"s3.region": "a", "client.region": "b"}, {"s3.region": "a"}, {"client.region": "b"}),
        ({"s3.path-style-access": "false"}, {"s3.force-virtual-addressing": "true"}, {"s3.path-style-access": "false"}),
        ({"s3.path-style-access": "true"}, {"s3.path-style-access": "true"}, {"s3.path-style-access": "true"}),
        ({"s3.path-style-access": "false", "s3.force-virtual-addressing": "false"}, {"s3.force-virtual-addressing": "false"}, {}),
    ],
)  # fmt: skip
def test_one_word_does_for_both_where_their_names_differ(
    given: dict[str, str], pyiceberg: dict[str, str], spark: dict[str, str]
) -> None:
    assert for_pyiceberg(given) == {**given, **pyiceberg}
    assert for_spark(given, scheme="file") == {**given, **spark}


class TestSqliteAndS3:
    lake = LakeLocation("s3://bucket/lake", {"type": "sqlite", "uri": "/disk/c.db", "s3.endpoint": "http://h:1"})
    name = "spark.sql.catalog.lake"

    def test_spark_finds_the_store_and_the_catalog(self) -> None:
        conf = spark_catalog_conf(self.lake)
        assert conf[f"{self.name}.type"] == "jdbc"
        assert conf[f"{self.name}.uri"].startswith("jdbc:sqlite:/disk/c.db?")
        assert conf[f"{self.name}.io-impl"] == "org.apache.iceberg.io.ResolvingFileIO"
        assert conf[f"{self.name}.s3.endpoint"] == "http://h:1"
        assert conf[f"{self.name}.warehouse"] == "s3://bucket/lake"

    def test_the_io_that_was_named_wins(self) -> None:
        named = LakeLocation("s3://b/l", {**self.lake.properties, "io-impl": "my.IO"})
        assert spark_catalog_conf(named)[f"{self.name}.io-impl"] == "my.IO"
        assert f"{self.name}.io-impl" not in spark_catalog_conf(LakeLocation("/disk/lake"))


@pytest.mark.parametrize(
    ("warehouse", "bundle"),
    [("s3://b/l", "aws"), ("s3a://b/l", "aws"), ("gs://b/l", "gcp"), ("abfss://c@a/l", "azure"), ("/lake", None)],
)
def test_the_package_of_the_store_comes_by_itself(warehouse: str, bundle: str | None) -> None:
    lake = LakeLocation(warehouse, {"type": "rest", "uri": "http://h"})
    packages = spark_catalog_conf(lake)["spark.jars.packages"].split(",")
    assert bundle_of(lake.scheme) == (f"iceberg-{bundle}-bundle" if bundle else None)
    assert packages[1:] == ([f"org.apache.iceberg:iceberg-{bundle}-bundle:1.11.0"] if bundle else [])


@pytest.mark.parametrize("setting", ["spark.jars.packages", "spark.jars", "spark.driver.extraClassPath"])
def test_a_package_that_the_user_brings_comes_once(setting: str) -> None:
    lake = LakeLocation("s3://b/l", {"type": "rest", "uri": "http://h"})
    own = "org.apache.iceberg:iceberg-aws-bundle:1.10.0"
    conf = spark_conf(lake, {setting: own}, master="spark://h:7077")
    assert conf["spark.jars.packages"].count("iceberg-aws-bundle") == (setting == "spark.jars.packages")


@pytest.mark.parametrize(
    ("endpoint", "is_foreign"),
    [
        ("https://cos.ap-guangzhou.myqcloud.com", True),
        ("https://obs.cn-north-4.myhuaweicloud.com", True),
        ("http://127.0.0.1:9000", True),
        ("cos.ap-guangzhou.myqcloud.com", True),
        ("https://s3.eu-central-1.amazonaws.com", False),
        ("https://s3.cn-north-1.amazonaws.com.cn", False),
        ("https://notamazonaws.com", True),
        (None, False),
    ],
)
def test_a_store_that_is_not_amazons_gets_no_newer_checksums(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None, *, is_foreign: bool
) -> None:
    for name in CHECKSUM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    properties = {} if endpoint is None else {"s3.endpoint": endpoint}
    assert set(checksum_environment(properties).values()) == ({"when_required"} if is_foreign else set())
    lake = LakeLocation("s3://b/l", {"type": "rest", "uri": "http://h", **properties})
    conf = spark_conf(lake, {"spark.executor.extraJavaOptions": "-Xss4m"}, master="spark://h:7077")
    options = checksum_options(properties, {})
    assert len(options) == (2 if is_foreign else 0)
    for jvm in ("driver", "executor"):
        told = conf[f"spark.{jvm}.extraJavaOptions"].split()
        assert [one for one in told if one.startswith("-Daws.")] == list(options)
    assert told[-1] == "-Xss4m", "the user's own come last and win"


def test_a_variable_that_somebody_has_set_holds_for_java_too(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"type": "rest", "uri": "http://h", "s3.endpoint": "http://127.0.0.1:9000"}
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported")
    monkeypatch.delenv("AWS_RESPONSE_CHECKSUM_VALIDATION", raising=False)
    told = spark_conf(LakeLocation("s3://b/l", properties))["spark.driver.extraJavaOptions"].split()
    assert "-Daws.requestChecksumCalculation=when_supported" in told
    assert "-Daws.responseChecksumValidation=when_required" in told


def test_spark_hides_the_secrets_of_catalogs() -> None:
    hidden = re.compile(spark_catalog_conf(LakeLocation("/lake"))["spark.redaction.regex"].removeprefix("(?i)"), re.I)
    secrets = (
        "s3.secret-access-key", "s3.access-key-id", "s3.session-token", "s3.sse.key", "token", "credential", "header.X-Auth",
        "adls.auth.shared-key.account.key", "adls.connection-string.shop", "adls.sas-token.shop", "gcs.oauth2.token",
        "gcs.encryption-key", "jdbc.password",
    )  # fmt: skip
    assert [name for name in secrets if not hidden.search(f"spark.sql.catalog.lake.{name}")] == []
    assert hidden.search("spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net")
    assert hidden.search("https://reader:hush@catalog.example/"), "Spark looks at values, too"
    for shown in ("spark.sql.catalog.lake.s3.endpoint", "https://catalog.example:8181/", "local[2]", "spark://h:7077"):
        assert not hidden.search(shown), shown
