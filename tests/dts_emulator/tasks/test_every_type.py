"""Every type with its border values, from a real MariaDB through each format to the lake: what docs/types.md says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dts_assets.model.tables import TableId
from dts_emulator.judge.comparison import compare
from dts_emulator.judge.dump_format import METADATA_KEY
from dts_emulator.source.events import Transaction
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.dts_emulator.recorded_lakes import recorded_lake
from tests.dts_emulator.type_gallery import CASES, column, statements
from tests.dts_emulator.type_page import PAGE, rows_of_page
from tests.dts_emulator.worked_databases import dump_of, transactions_of, worked_server
from tests.tiers import chosen

pytestmark = pytest.mark.database

TABLE = TableId("d", "", "types")
IN_MILLIS = {f"{kind}({digits})" for kind in ("datetime", "time") for digits in (4, 5, 6)} | {
    f"timestamp({digits}) null" for digits in (4, 5, 6)
}
UNSIGNED = {"bigint unsigned", "bigint(20) unsigned zerofill"}
BITS = {"bit(1)", "bit(12)", "bit(64)"}
DIFFERENT: Mapping[str, set[str]] = {
    "dts-avro": IN_MILLIS, "dts-json": IN_MILLIS,
    **dict.fromkeys(("drs-avro", "drs-json", "drs-json-c"), UNSIGNED | BITS)
}  # fmt: skip
"""Types that a format does not carry as they are: docs/formats.md says why."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Transaction], Path]]:
    with worked_server(statements()) as server:
        folder = dump_of(server, tmp_path_factory.mktemp("dump"), tables=1)
        yield transactions_of(server), folder / "d.types.parquet"


@pytest.fixture(scope="module")
def made(
    source: tuple[list[Transaction], Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, tuple[pa.Table, pa.Table]]:
    """The snapshot and the changelog of the table, by format."""
    found = {}
    for name in FORMATS:
        harness = recorded_lake(name, source[0], tmp_path_factory.mktemp("lake"))
        pipeline = harness.pipeline
        assert harness.rows("quarantine") == []
        snapshot, changelog = (
            pipeline.lake.scan(pipeline.table_path(layer, TABLE)) for layer in ("snapshot", "changelog")
        )
        assert snapshot is not None
        assert changelog is not None
        found[name] = snapshot, changelog
    return found


def dumped(file: Path, number: int, folder: Path) -> Path:
    """The dump of the key and the column of one case."""
    table = pq.read_table(file, columns=["id", column(number)])
    description = json.loads(table.schema.metadata[METADATA_KEY])
    description["columns"] = [one for one in description["columns"] if one["name"] in table.column_names]
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(description)}), folder / "one.parquet")
    return folder / "one.parquet"


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", FORMATS)
def test_values_of_every_type_are_the_databases(
    source: tuple[list[Transaction], Path], made: Mapping[str, tuple[pa.Table, pa.Table]], name: str, tmp_path: Path
) -> None:
    snapshot, _ = made[name]
    different = {
        case.declared
        for number, case in enumerate(CASES)
        if not compare(snapshot.select(["id", column(number)]), dumped(source[1], number, tmp_path)).equal
    }
    assert different == DIFFERENT.get(name, set())


@pytest.mark.parametrize("name", FORMATS)
def test_a_value_that_does_not_fit_is_kept_as_its_text(
    source: tuple[list[Transaction], Path], made: Mapping[str, tuple[pa.Table, pa.Table]], name: str
) -> None:
    """NULL stands for NULL alone: every other value is in its column, or its text is in ``_invalid``."""
    snapshot, _ = made[name]
    texts = {int(row["id"]): row for row in pq.read_table(source[1]).to_pylist()}
    for row in snapshot.to_pylist():
        invalid = dict(row["_invalid"] or ())
        for number, case in enumerate(CASES):
            value, text = row[column(number)], texts[row["id"]][column(number)]
            if text is None:
                assert value is None, case.declared
                assert column(number) not in invalid, case.declared
            elif value is None:
                zero = (
                    name in ("drs-avro", "drs-json")
                    and case.declared.startswith("timestamp")
                    and text.startswith("0000")
                )
                shown = "0" if zero else text.split(".")[0]  # fractions of zeros may be left out
                assert invalid.get(column(number), "").split(".")[0] == shown, (case.declared, text)
            else:
                assert column(number) not in invalid, case.declared


@pytest.mark.parametrize("name", FORMATS)
def test_old_and_deleted_images_have_the_same_values(made: Mapping[str, tuple[pa.Table, pa.Table]], name: str) -> None:
    """The row of a key was inserted, moved by an update, copied and deleted: four images with one content."""
    _, changelog = made[name]
    images: dict[int, list[tuple[str, object]]] = {}
    for change in changelog.to_pylist():
        invalid = dict(change["invalid"] or ())
        for side in ("before", "after"):
            image = change[side]
            if image is None or (change["op"] == "update" and side == "before" and change["absent"]):
                continue
            values = {key: value for key, value in image.items() if key != "id"}
            fits = {key.removeprefix(f"{side}."): text for key, text in invalid.items() if key.startswith(f"{side}.")}
            images.setdefault(image["id"] % 100, []).append((f"{change['op']} {side}", (values, fits)))
    assert images.keys() == {*range(max(len(case.values) for case in CASES) + 1)}
    for key, told in images.items():
        told = [one for one in told if name != "canal-json" or not one[0].endswith("update before")]
        first = repr(told[0][1])
        assert [label for label, one in told if repr(one) != first] == [], key
        assert len(told) >= 4


def test_the_page_shows_what_was_found(
    source: tuple[list[Transaction], Path], made: Mapping[str, tuple[pa.Table, pa.Table]]
) -> None:
    found = {name: snapshot for name, (snapshot, _) in made.items()}
    lines = rows_of_page(found, pq.read_table(source[1]))
    missing = [line for line in lines if line not in PAGE.read_text().splitlines()]
    assert not missing, "docs/types.md lacks these rows:\n" + "\n".join(missing)
    shown = [
        line
        for line in PAGE.read_text().partition("## Other types on request")[0].splitlines()
        if line.startswith("| `")
    ]
    assert len(shown) == len(lines), "docs/types.md shows a type that was not looked at"


EIGHT_HOURS = timedelta(hours=8)
CLOCKS = ("drs-json-c", "canal-json")
"""Formats whose TIMESTAMP values are clocks without a zone, too."""
OTHERWISE = [
    "tinyint1-to-boolean", "bigint-unsigned-to-bigint", "datetime-to-timestamp"
]  # fmt: skip


def shown(table: pa.Table, number: int) -> dict[int, tuple[object, str | None]]:
    """The value of each row in the column of a case, and its text if it does not fit."""
    rows = table.select(["id", column(number), "_invalid"]).to_pylist()
    return {row["id"]: (row[column(number)], dict(row["_invalid"] or ()).get(column(number))) for row in rows}


def otherwise(name: str, declared: str, value: object, text: str | None) -> tuple[object, str | None]:
    """A value of the usual lake and its text, as the mappings show it in a source eight hours ahead of UTC."""
    if declared == "tinyint(1)" and value is not None and not name.startswith("drs"):  # DRS sends no (1)
        return (bool(value), None) if value in (0, 1) else (None, str(value))
    if declared.startswith("bigint") and isinstance(value, Decimal) and value >= 1 << 63:
        return None, str(value)
    is_clock = declared.startswith(("datetime", "timestamp") if name in CLOCKS else "datetime")
    if is_clock and isinstance(value, datetime):
        try:
            return value.replace(tzinfo=UTC) - EIGHT_HOURS, None
        except OverflowError:  # before the year 1 in UTC
            return None, f"{value.isoformat(' ')}"
    return value, text


@pytest.mark.more(after=1)
@pytest.mark.parametrize("name", chosen(FORMATS, 2))
def test_types_are_mapped_as_asked(
    source: tuple[list[Transaction], Path], made: Mapping[str, tuple[pa.Table, pa.Table]], name: str, tmp_path: Path
) -> None:
    harness = recorded_lake(name, source[0], tmp_path, type_mapping=OTHERWISE, source_time_zone="+08:00")
    found = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", TABLE))
    assert found is not None
    usual, _ = made[name]
    for number, case in enumerate(CASES):
        expected = {key: otherwise(name, case.declared, *one) for key, one in shown(usual, number).items()}
        for key, (value, text) in shown(found, number).items():
            assert (value, (text or "").split(".")[0]) == (
                expected[key][0], (expected[key][1] or "").split(".")[0]
            ), (case.declared, key)  # fmt: skip


def test_everything_is_text_on_request(source: tuple[list[Transaction], Path], tmp_path: Path) -> None:
    harness = recorded_lake("dts-protobuf", source[0], tmp_path, type_mapping={"d.t*": ["to-string"]})
    found = harness.pipeline.lake.scan(harness.pipeline.table_path("snapshot", TABLE))
    assert found is not None
    texts = {int(row["id"]): row for row in pq.read_table(source[1]).to_pylist()}
    assert found.schema.field("id").type == pa.string()
    for number, case in enumerate(CASES):
        if pa.types.is_binary(found.schema.field(column(number)).type):
            continue
        floating = np.float32 if case.declared.startswith("float") else np.float64
        for row in found.to_pylist():
            assert dict(row["_invalid"] or ()) == {}
            value, text = row[column(number)], texts[int(row["id"])][column(number)]
            if case.declared.startswith(("timestamp", "year", "int(6)", "bigint(20)")):  # the stream's spelling of them
                assert (value is None) == (text is None)
            elif case.declared.startswith(("float", "double")) and text is not None:
                assert floating(value) == floating(text), case.declared
            else:
                assert value == text, case.declared
