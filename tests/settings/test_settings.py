"""pipeline.yaml: the whole contract is read, every mistake is named at once, and no secret is ever shown."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.errors import ConfigErrors, ConfigMistake
from dts_assets.model.tables import TableId
from dts_assets.model.windows import Window, WindowGrid
from dts_assets.settings import config_file, load_settings
from dts_assets.settings.unsupported import UNSUPPORTED

HOUSE = Path(__file__).parents[2]

SMALLEST = """\
lake:
  warehouse: ./lake
subscriptions:
  shop:
    format: dts-protobuf
    source: {capture: ./capture}
    partitions: 4
    window: {every: 1h, start: 2026-01-05T00:00Z}
"""

WHOLE_CONTRACT = """\
lake:
  warehouse: s3://bucket/lake
  catalog: {type: rest, uri: "${CATALOG}", credential: "${TOKEN}"}
spark:
  remote: sc://host:15002/;token=${TOKEN}
  conf: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}
subscriptions:
  shop:
    format: dts-avro
    schema: ./Record.avsc
    source:
      kafka:
        bootstrap_servers: "${BROKERS}"
        topics: [topic-a, topic-b]
        group_id: consumer-grp-1
        config:
          security.protocol: SASL_SSL
          sasl.mechanism: SCRAM-SHA-512
          sasl.username: account
          sasl.password: "${TOKEN}"
          enable.ssl.certificate.verification: true
          fetch.min.bytes: 1
    partitions: 4
    window: {every: 15m, start: "2026-01-01T08:00+08:00", end: null, grace: 10m, live: true, max_clock_skew: 5m}
    consistency: window
    epoch: 1
    retention: 7d
    source_time_zone: Asia/Shanghai
    tables: {include: ["shopdb.*", "hr.public.people"], exclude: ["shopdb.tmp_*"]}
    history: ["shopdb.orders"]
    deletes: {"shopdb.sessions": hard, "shopdb.*": soft}
    audit_columns: [transaction_id, op]
    layout: {"shopdb.orders": {partition: ["months(created_at)", "bucket(16, id)"], sort: [id]}}
    sql: {tables: ["shopdb.*"], dialect: mysql}
    types: {"shopdb.orders.note": string, "shopdb.orders.price": "decimal(12,2)"}
    on_incomplete: block
"""
ENVIRONMENT = {"CATALOG": "http://catalog", "TOKEN": "hunter2", "BROKERS": "host:9092"}

KEYS = ["lake", "warehouse", "subscriptions", "shop", "window", "source", "types", "x"]

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        file = tmp_path / "pipeline.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return written


def mistakes(file: Path, **environment: str) -> list[ConfigMistake]:
    with pytest.raises(ConfigErrors) as caught:
        load_settings(file, environment=environment)
    return list(caught.value.mistakes)


def the_mistake(file: Path, **environment: str) -> ConfigMistake:
    found = mistakes(file, **environment)
    assert len(found) == 1, found
    return found[0]


class TestWhatAFileSays:
    def test_defaults_are_those_of_the_contract(self, write: Write, tmp_path: Path) -> None:
        settings = load_settings(write(SMALLEST), environment={})
        shop = settings.subscriptions["shop"]
        assert settings.lake.warehouse == str(tmp_path / "lake")
        assert settings.lake.catalog_file == tmp_path / "lake" / "catalog.db"
        assert (settings.spark.master, settings.spark.remote, dict(settings.spark.conf)) == ("local[2]", None, {})
        assert shop.name == "shop"
        assert shop.source.capture is not None
        assert (shop.source.capture.path, shop.source.capture.complete) == (tmp_path / "capture", True)
        assert shop.shipped_registry_path == tmp_path / "registry" / "shop.json"
        assert (shop.window.grace, shop.window.max_clock_skew) == (timedelta(minutes=10), timedelta(minutes=5))
        assert (shop.consistency, shop.epoch, shop.retention) == ("cut", 0, timedelta(days=1))
        assert (shop.on_incomplete, shop.window.live, shop.tables.include) == ("continue", False, ("*",))
        assert shop.source_time_zone == "+08:00"

    def test_the_grid_speaks_the_words_of_the_model(self, write: Write) -> None:
        shop = load_settings(write(SMALLEST), environment={}).subscriptions["shop"]
        start = datetime(2026, 1, 5, tzinfo=UTC)
        assert shop.grid == WindowGrid(timedelta(hours=1), start)
        assert shop.grid.of_key("2026-01-05-03:00") == Window(start + timedelta(hours=3), start + timedelta(hours=4))

    def test_the_whole_contract_is_read(self, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr("dts_assets.settings.unsupported.UNSUPPORTED", ())
        settings = load_settings(write(WHOLE_CONTRACT), environment=ENVIRONMENT)
        shop = settings.subscriptions["shop"]
        assert settings.lake.warehouse == "s3://bucket/lake"
        assert settings.lake.catalog_file is None
        assert settings.lake.catalog.properties == {"uri": "http://catalog", "credential": "hunter2"}
        assert (settings.spark.master, settings.spark.remote) == (None, "sc://host:15002/;token=hunter2")
        assert settings.spark.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
        assert shop.schema_file == tmp_path / "Record.avsc"
        assert shop.source.kafka is not None
        assert shop.source.kafka.bootstrap_servers == "host:9092"
        assert shop.source.kafka.topics == ("topic-a", "topic-b")
        assert shop.source.kafka.config["sasl.password"] == "hunter2"
        assert shop.source.kafka.config["enable.ssl.certificate.verification"] == "true"
        assert shop.grid.start == datetime(2026, 1, 1, tzinfo=UTC)
        assert shop.source_time_zone == "Asia/Shanghai"
        orders = TableId("shopdb", "", "orders")
        assert shop.types_of(orders) == {"note": "string", "price": "decimal(12,2)"}
        assert shop.types_of(TableId("shopdb", "", "order")) == {}
        assert (shop.history, shop.sql.tables) == (("shopdb.orders",), ("shopdb.*",))
        assert shop.snapshot_columns(orders) == ("_deleted_at", "_op", "_transaction_id")
        assert shop.snapshot_columns(TableId("shopdb", "", "sessions")) == ("_op", "_transaction_id")

    def test_tables_are_taken_by_globs_and_exact_names_are_known_at_once(self, write: Write) -> None:
        text = SMALLEST + '    tables: {include: ["shopdb.*", hr.public.people, shopdb.tmp_a], exclude: ["*.tmp_*"]}\n'
        tables = load_settings(write(text), environment={}).subscriptions["shop"].tables
        assert tables.takes(TableId("shopdb", "", "orders"))
        assert not tables.takes(TableId("shopdb", "", "tmp_orders"))
        assert not tables.takes(TableId("hr", "public", "pay"))
        assert tables.exact == (TableId("hr", "public", "people"),)

    def test_a_sqlite_catalog_may_be_another_file(self, write: Write, tmp_path: Path) -> None:
        text = SMALLEST.replace("./lake", "s3://bucket/lake\n  catalog: {uri: ./catalog.db}")
        assert load_settings(write(text), environment={}).lake.catalog.properties == {
            "uri": str(tmp_path / "catalog.db")
        }

    def test_anchors_and_merges_are_plain_yaml(self, write: Write) -> None:
        text = SMALLEST.replace("  shop:\n", "  shop: &one\n") + "  other:\n    <<: *one\n    partitions: 8\n"
        subscriptions = load_settings(write(text), environment={}).subscriptions
        assert (subscriptions["shop"].partitions, subscriptions["other"].partitions) == (4, 8)
        assert subscriptions["other"].name == "other"
        assert subscriptions["other"].grid == subscriptions["shop"].grid

    def test_settings_are_frozen_and_survive_pickling(self, write: Write) -> None:
        settings = load_settings(write(SMALLEST), environment={})
        assert pickle.loads(pickle.dumps(settings)) == settings
        with pytest.raises(ValueError, match="frozen"):
            settings.subscriptions["shop"].partitions = 5  # type: ignore[misc]

    def test_a_table_whose_name_ends_with_a_line_break_is_named_as_it_is(self, write: Write) -> None:
        text = SMALLEST.replace("partitions: 4", 'partitions: 4\n    tables: {exclude: ["shopdb.orders\\n"]}')
        tables = load_settings(write(text), environment={}).subscriptions["shop"].tables
        assert not tables.takes(TableId("shopdb", "", "orders\n"))
        assert tables.takes(TableId("shopdb", "", "orders"))

    def test_the_example_that_ships_is_valid(self) -> None:
        shop = load_settings(HOUSE / "pipeline.yaml", environment={}).subscriptions["shop"]
        assert shop.source.capture is not None
        assert shop.source.capture.path == HOUSE / "examples" / "shop"
        assert len(list(shop.grid.until(datetime(2027, 1, 1, tzinfo=UTC)))) == 8


class TestWhereTheFileIs:
    def test_the_file_asked_for_wins_over_the_environment(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        file = write(SMALLEST)
        monkeypatch.setenv("DTS_ASSETS_CONFIG", "other.yaml")
        assert config_file(file) == file

    def test_the_environment_wins_over_the_current_folder(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        file = write(SMALLEST)
        monkeypatch.chdir(file.parent)
        monkeypatch.setenv("DTS_ASSETS_CONFIG", "other.yaml")
        assert config_file() == file.parent / "other.yaml"
        monkeypatch.delenv("DTS_ASSETS_CONFIG")
        assert config_file() == file

    def test_elsewhere_it_is_the_one_beside_the_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("DTS_ASSETS_CONFIG", raising=False)
        assert config_file() == HOUSE / "pipeline.yaml"

    def test_a_file_that_is_not_there_is_one_sentence(self, tmp_path: Path) -> None:
        found = the_mistake(tmp_path / "none.yaml")
        assert (found.line, found.message) == (None, "there is no such file")


class TestMistakes:
    def test_every_mistake_is_reported_at_once_in_the_order_of_the_file(self, write: Write) -> None:
        text = (
            SMALLEST.replace("./lake", "''")
            .replace("dts-protobuf", "dts-protobf")
            .replace("partitions: 4", "partitions: 0")
        )
        found = mistakes(write(text.replace("every: 1h", "every: 7h")))
        assert [(mistake.line, mistake.path) for mistake in found] == [
            (2, "lake.warehouse"),
            (5, "subscriptions.shop.format"),
            (7, "subscriptions.shop.partitions"),
            (8, "subscriptions.shop.window.every"),
        ]
        assert all(mistake.file.endswith("pipeline.yaml") and mistake.fix for mistake in found)

    @pytest.mark.parametrize(
        ("change", "path", "message", "fix"),
        [
            (("./lake", "./lake\n  warehose: a"), "lake.warehose", "no such key", "did you mean warehouse?"),
            (("dts-protobuf", "dts-protobf"), "subscriptions.shop.format", '"dts-protobf" is none', "did you mean dts-protobuf?"),
            (("every: 1h", "every: 7h"), "subscriptions.shop.window.every", "do not fill a day", "15m, 1h, 6h"),
            (("every: 1h", "every: 30s"), "subscriptions.shop.window.every", "do not fill a day", "1m to 1d"),
            (("every: 1h", "every: 2d"), "subscriptions.shop.window.every", "do not fill a day", "1m to 1d"),
            (("every: 1h", "every: 60"), "subscriptions.shop.window.every", '"60" is no duration', "1h"),
            (("T00:00Z", "T00:30Z"), "subscriptions.shop.window.start", "no border", "midnight UTC"),
            (("T00:00Z", "T00:00"), "subscriptions.shop.window.start", "no time zone", "2026-01-05T00:00Z"),
            (("T00:00Z", "T00:00Z, end: 2026-01-05T00:00Z"), "subscriptions.shop.window.end", "not after", "later end"),
            (("T00:00Z", "T00:00Z, end: 2026-01-05T01:10Z"), "subscriptions.shop.window.end", "no border", "midnight"),
            (("T00:00Z", "T00:00Z, grace: -5m"), "subscriptions.shop.window.grace", "no duration", "10m"),
            (("partitions: 4", "partitions: 101"), "subscriptions.shop.partitions", '"101" is out', "from 1 to 100"),
            (("partitions: 4", "partitions: four"), "subscriptions.shop.partitions", "no whole number", "whole"),
            (("  shop:", "  Shop:"), "subscriptions.Shop", "cannot be used in the lake", "begin with a-z"),
            (("  shop:", f"  {'s' * 64}:"), f"subscriptions.{'s' * 64}", "cannot be used in the lake", "up to 63 characters"),
            (("{capture: ./capture}", "{}"), "subscriptions.shop.source", "nothing is said", "capture:"),
            (("{capture: ./capture}", "./capture"), "subscriptions.shop.source", "a mapping", "key: value"),
            (("{capture: ./capture}", "{capture: {path: x, complete: maybe}}"), "subscriptions.shop.source.capture.complete",
             '"maybe" is neither', "true or false"),
            (("lake:\n", "spark: {master: a, remote: 'sc://a'}\nlake:\n"), "spark.remote", "beside the remote", "keep one"),
            (("lake:\n", "spark: {remote: 'sc://host:port'}\nlake:\n"), "spark.remote", "port is none", "sc://host:15002"),
            (("lake:\n", "spark: {remote: 'sc://host:70000/;token=x'}\nlake:\n"), "spark.remote", "port is none", "1 to 65535"),
            (("lake:\n", "spark: {conf: {spark.driver.extraJavaOptions: -Djavax.net.ssl.trustStorePassword=hush}}\nlake:\n"),
             "spark.conf.spark.driver.extraJavaOptions", "the option javax.net.ssl.trustStorePassword would", "@/path"),
            (("./lake", "s3://bucket/lake"), "lake.catalog", "no folder", "local warehouse"),
            (("./lake", "./lake\n  catalog: {type: rest}"), "lake.catalog", "uri is missing", "uri:"),
            (("partitions: 4", "partitions: 4\n    schema: x.avsc"), "subscriptions.shop.schema", "without a schema", "remove"),
            (("partitions: 4", 'partitions: 4\n    source_time_zone: "+8"'), "subscriptions.shop.source_time_zone",
             "no time zone", "+08:00"),
            (("partitions: 4", "partitions: 4\n    tables: {include: [orders]}"), "subscriptions.shop.tables.include[0]",
             '"orders" names no tables', "shopdb.orders"),
            (("partitions: 4", 'partitions: 4\n    tables: {include: ["shopdb.orders "]}'),
             "subscriptions.shop.tables.include[0]", "names no tables", "shopdb.orders"),
            (("partitions: 4", "partitions: 4\n    tables: {include: []}"), "subscriptions.shop.tables.include", "nothing is",
             "at least one"),
            (("partitions: 4", "partitions: 4\n    types: {a.b.c: strng}"), "subscriptions.shop.types.a.b.c", "no column type",
             "decimal(p,s)"),
            (("partitions: 4", "partitions: 4\n    types: {a.b: string}"), "subscriptions.shop.types.a.b", "no column",
             "shopdb.orders.note"),
            (("partitions: 4", "partitions: 4\n    type_mapping: to-string"), "subscriptions.shop.type_mapping",
             '"to-string" is one word', "write a list"),
            (("partitions: 4", "partitions: 4\n    type_mapping: [to-strng]"), "subscriptions.shop.type_mapping.*[0]",
             "is none of its values", "to-string"),
            (("partitions: 4", "partitions: 4\n    type_mapping: {shopdb: [to-string]}"),
             "subscriptions.shop.type_mapping.shopdb", "names no tables", "shopdb.*"),
            (("partitions: 4", "partitions: 4\n    deletes: sfot"), "subscriptions.shop.deletes", '"sfot" says nothing',
             "hard or soft"),
            (("partitions: 4", "partitions: 4\n    deletes: {shopdb: soft}"), "subscriptions.shop.deletes.shopdb",
             "names no tables", "shopdb.*"),
            (("partitions: 4", "partitions: 4\n    deletes: {a.b: sfot}"), "subscriptions.shop.deletes.a.b", '"sfot"',
             "soft"),
            (("partitions: 4", 'partitions: 4\n    layout: {a.b: {partition: ["month(c)"]}}'),
             "subscriptions.shop.layout.a.b.partition[0]", '"month(c)" is no partition field', "months(column)"),
            (("partitions: 4", 'partitions: 4\n    layout: {a.b: {sort: ["c d, e"]}}'), "subscriptions.shop.layout.a.b.sort[0]",
             "is no column", "backquotes"),
            (("partitions: 4", "partitions: 4\n    audit_columns: [gtid]"), "subscriptions.shop.audit_columns[0]", '"gtid"',
             "op"),
            (("partitions: 4", "partitions: 4\n    partitions: 5"), "subscriptions.shop.partitions", "second time", "keep one"),
            (("  shop:\n", "  shop: &a\n    sql: *a\n"), "subscriptions.shop.sql", "contains it", "write the value out"),
        ],
    )  # fmt: skip
    def test_a_mistake_says_where_and_how_to_mend_it(
        self, write: Write, change: tuple[str, str], path: str, message: str, fix: str
    ) -> None:
        text = SMALLEST.replace(*change)
        assert text != SMALLEST
        found = [mistake for mistake in mistakes(write(text)) if mistake.path == path]
        assert found
        assert message in found[0].message
        assert fix in found[0].fix
        assert found[0].line is not None

    @pytest.mark.parametrize(
        "options", ["@/etc/shop/java.options", "-Dmy.tokenizer=x -Dfile.encoding=UTF-8", "-Dpath=/secret"]
    )
    def test_options_of_java_without_a_secret_are_taken(self, write: Write, options: str) -> None:
        text = f"spark: {{conf: {{spark.executor.extraJavaOptions: '{options}'}}}}\n{SMALLEST}"
        assert load_settings(write(text)).spark.conf["spark.executor.extraJavaOptions"] == options

    def test_a_misspelt_key_is_named_beside_the_one_that_is_missing(self, write: Write) -> None:
        found = mistakes(write(SMALLEST.replace("partitions: 4", "partitons: 4")))
        assert {(mistake.message, mistake.line) for mistake in found} == {
            ("partitions is missing", 4),
            ("no such key", 7),
        }

    @pytest.mark.parametrize(
        ("text", "line", "fix"),
        [
            ("lake: {warehouse: ${LAKE}}\n", 1, 'quotes around "${NAME}"'),
            ("a:\n  b: [*]\n", 2, "quotes around a value that begins with *"),
            ("a:\n\tb: 1\n", 2, "not with tabs"),
            ("a: 1\nb\nc: 2\n", 3, "mend the line"),
        ],
    )
    def test_text_that_is_no_yaml_names_its_line(self, write: Write, text: str, line: int, fix: str) -> None:
        found = the_mistake(write(text))
        assert found.message.startswith("it is not YAML")
        assert found.line is not None
        assert abs(found.line - line) <= 1
        assert fix in found.fix

    @pytest.mark.parametrize(
        "text", ["", "[]", "just text", "lake: 3", "subscriptions: {}", "subscriptions: {shop: null}"]
    )
    def test_any_shape_of_file_is_judged_and_never_a_crash(self, write: Write, text: str) -> None:
        assert mistakes(write(text))

    @given(st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner),
        max_leaves=12,
    ))  # fmt: skip
    def test_random_documents_are_judged_and_never_a_crash(
        self, tmp_path_factory: pytest.TempPathFactory, value: object
    ) -> None:
        file = tmp_path_factory.mktemp("random") / "pipeline.yaml"
        file.write_text(json.dumps(value), encoding="utf-8")
        assert mistakes(file)


class TestTheEnvironment:
    def test_a_missing_variable_is_named_and_the_place_is_not_judged_further(self, write: Write) -> None:
        found = the_mistake(write(SMALLEST.replace("every: 1h", 'every: "${EVERY}"')))
        assert (found.path, found.line) == ("subscriptions.shop.window.every", 8)
        assert found.message == "the environment has no variable EVERY"

    def test_a_variable_that_stands_in_many_places_is_one_mistake(self, write: Write) -> None:
        text = SMALLEST.replace("./lake", "'${X}/lake'\n  catalog: {type: rest, uri: '${X}', token: 'a${X}'}")
        found = the_mistake(write(text.replace("every: 1h", "every: '${X}'").replace("./capture", "'${X}'")))
        assert (found.path, found.fix) == ("lake.warehouse", "set X in the environment")

    @pytest.mark.parametrize("place", [
        "{warehouse: '${X}'}", "{warehouse: s3://b, catalog: {type: '${X}', uri: u}}",
        "{warehouse: s3://b, catalog: {type: rest, uri: '${X}'}}",
    ])  # fmt: skip
    def test_nothing_else_is_a_mistake_for_the_lack_of_its_value(self, write: Write, place: str) -> None:
        found = the_mistake(write(SMALLEST.replace("lake:\n  warehouse: ./lake", f"lake: {place}")))
        assert found.message == "the environment has no variable X"

    def test_values_of_every_kind_can_come_from_it(self, write: Write) -> None:
        text = SMALLEST.replace("every: 1h", 'every: "${EVERY}"').replace("partitions: 4", "partitions: ${N}")
        shop = load_settings(write(text), environment={"EVERY": "30m", "N": "7"}).subscriptions["shop"]
        assert (shop.window.every, shop.partitions) == (timedelta(minutes=30), 7)

    def test_two_dollars_keep_the_braces(self, write: Write, tmp_path: Path) -> None:
        text = SMALLEST.replace("./lake", "./$${NOT}/${YES}")
        settings = load_settings(write(text), environment={"YES": "b"})
        assert settings.lake.warehouse == str(tmp_path / "${NOT}" / "b")

    @pytest.mark.parametrize("reference", ["${}", "${1A}", "${A-B}", "${OPEN"])
    def test_a_reference_that_names_nothing_is_a_mistake(self, write: Write, reference: str) -> None:
        found = the_mistake(write(SMALLEST.replace("./lake", reference)))
        assert "names no environment variable" in found.message

    def test_no_secret_is_in_any_text_of_the_settings(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dts_assets.settings.unsupported.UNSUPPORTED", ())
        settings = load_settings(write(WHOLE_CONTRACT), environment=ENVIRONMENT)
        for text in (
            repr(settings),
            str(settings),
            repr(settings.subscriptions),
            repr(settings.lake.catalog.properties),
        ):
            assert "hunter2" not in text
            assert "sasl.password" in text or "credential" in text
        assert "hunter2" not in settings.model_dump_json()

    @pytest.mark.parametrize(
        "change",
        [
            ("every: 1h", 'every: "${TOKEN}"'),
            ("2026-01-05T00:00Z", '"${TOKEN}"'),
            ("dts-protobuf", "${TOKEN}"),
            ("partitions: 4", "partitions: ${TOKEN}"),
            ("partitions: 4", 'partitions: 4\n    source_time_zone: "${TOKEN}"'),
            ("partitions: 4", 'partitions: 4\n    tables: {include: ["${TOKEN}"]}'),
            ("partitions: 4", 'partitions: 4\n    types: {a.b.c: "${TOKEN}"}'),
            ("partitions: 4", 'partitions: 4\n    unknown: "${TOKEN}"'),
            ("{capture: ./capture}", '{capture: {path: a, complete: "${TOKEN}"}}'),
            ("lake:\n", 'spark: {conf: ["${TOKEN}"]}\nlake:\n'),
            ("lake:\n", 'spark: {remote: "${TOKEN}"}\nlake:\n'),
        ],
    )
    def test_no_secret_is_in_any_error(self, write: Write, change: tuple[str, str]) -> None:
        with pytest.raises(ConfigErrors) as caught:
            load_settings(write(SMALLEST.replace(*change)), environment={"TOKEN": "hunter2"})
        error = caught.value
        assert "hunter2" not in f"{error} {error!r} {error.__cause__!r} {error.__context__!r}"


class TestWhatIsNotThereYet:
    ASKED_FOR = (("./lake", "./lake\n  catalog: {type: glue}", "lake.catalog.type"),)

    @pytest.mark.parametrize(("before", "after", "place"), ASKED_FOR)
    def test_it_is_refused_by_name(self, write: Write, before: str, after: str, place: str) -> None:
        found = the_mistake(write(SMALLEST.replace(before, after)))
        assert found.path == place
        assert "not supported by this version yet" in found.message

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("./lake", "./lake\n  catalog: {type: hiv}"),
            ("./lake", "./lake\n  catalog: {type: gleu}"),
        ],
    )
    def test_it_is_never_suggested(self, write: Write, before: str, after: str) -> None:
        found = the_mistake(write(SMALLEST.replace(before, after)))
        for refused in ("hive", "glue"):
            assert refused not in found.fix
        assert "did you mean" in found.fix or "write one of " in found.fix

    def test_every_entry_of_the_list_is_tested_here(self) -> None:
        listed = {".".join(entry.place) for entry in UNSUPPORTED}
        assert listed == {place for _, _, place in self.ASKED_FOR}
