"""The command ``schema``: what it shows of a table at a moment, and what it says where it cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dts_assets.cli.main import cli
from tests.dts_messages import SERVER
from tests.flows.changing_schemas import WINDOWS, Worked, opened
from tests.flows.history import EVERY, START, border
from tests.flows.in_process import bench_in_process
from tests.flows.short import SECOND, open_short, short_source
from tests.flows.source import Ddl, Dml
from tests.flows.source_tables import BIGINT, INT, Field, Table
from tests.shop_example import ROOT, shop_config, shop_of

CONFIG = """\
lake: {{warehouse: {folder}/lake}}
subscriptions:
  made_1:
    format: dts-protobuf
    source: {{capture: {{path: {folder}/capture_made, complete: true}}}}
    partitions: 2
    window: {{every: {every}m, start: "{start}", end: "{end}"}}
    columns: {{"bank.items.n": {{mask: hidden}}}}
"""


@pytest.fixture(scope="module")
def worked() -> Worked:
    made = Worked()
    made.change(
        "default",
        border(2) + EVERY / 2,
        "ALTER TABLE items MODIFY n BIGINT DEFAULT 4711, ALTER c SET DEFAULT '\x1b[31m'",
        "n",
        BIGINT,
    )
    made.insert("last", border(2) + EVERY * 0.6)
    made.source.checkpoint(border(2) + EVERY * 0.7)
    return made


@pytest.fixture(scope="module")
def config(worked: Worked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schema")
    opened(worked, folder, "made", *range(WINDOWS))
    facts = {
        "folder": folder,
        "every": EVERY.seconds // 60,
        "start": START.isoformat(),
        "end": border(WINDOWS).isoformat(),
    }
    (folder / "pipeline.yaml").write_text(CONFIG.format(**facts))
    return folder / "pipeline.yaml"


def call(config: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["schema", *arguments, "--config", str(config)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def cells(output: str) -> list[list[str]]:
    """The rows of all tables that are shown."""
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line.startswith("│")
    ]


@pytest.mark.more
def test_the_columns_of_now_and_all_that_has_changed(config: Path, worked: Worked) -> None:
    done = call(config, "bank.items")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("bank.items as of window 2026-03-01-10:20, which stands at 0:9:")
    assert lines[1].startswith("since 0:9:")
    columns = [row for row in cells(done.stdout) if len(row) == 7]
    assert columns == [
        ["id", "int(11)", "1", "no", "?", "?", ""],
        ["n", "bigint(20)", "", "yes", "(a rule hides it)", "", ""],
        ["late", "varchar(80)", "", "?", "?", "?", ""],
        ["c", "int(11)", "", "yes", "'\\x1b[31m'", "", ""],
    ]
    changes = [row for row in cells(done.stdout) if len(row) == 4]
    assert [row[3] for row in changes] == [
        "an event told 2 columns",
        "column late text added after n",
        "an event told column late varchar(80), was text",
        "not proven: an attribute that is not known",
        "an event told column n bigint(20), was int(11)",
        "column c int(11) added after late",
        "column n is bigint(20); column c has another default",
    ]
    assert "4711" not in done.stdout
    assert [row[2] for row in changes] == ["2026-03-01-10:00"] * 3 + ["2026-03-01-10:10"] * 2 + ["2026-03-01-10:20"] * 2


@pytest.mark.more
def test_a_moment_shows_its_columns_and_what_changed_since(config: Path, worked: Worked) -> None:
    position = ":".join(map(str, worked.places["rows 0"]))
    for moment in (f"0:{position}", f"mysql-bin.00000{position}", f"{SERVER}:1", "2026-03-01T10:00:05"):
        done = call(config, "bank.items", "--at", moment)
        assert [row[:2] for row in cells(done.stdout) if len(row) == 7] == [["id", "int(11)"], ["n", "int(11)"]], moment
        assert len([row for row in cells(done.stdout) if len(row) == 4]) == 6
    doubted = call(config, "bank.items", "--at", f"{SERVER}:5").stdout
    assert "Not proven: an attribute that is not known.\n" in doubted
    assert "Nothing has changed since." in call(config, "bank.items", "--at", "2026-03-01-10:20").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("bank.item",), 2, "made_1 has no table bank.item; did you mean bank.items?"),
        (("x",), 2, "dts-assets tables lists the 1 tables that there are"),
        (("bank.items", "--at", "noon"), 2, "noon is no moment; write a position (0:4:1187)"),
        (("bank.items", "--subscription", "other"), 2, "there is no subscription other"),
        (
            ("bank.items", "--at", "0:9:5"),
            1,
            "The lake has no columns of bank.items as of 0:9:5; its first trace stands at",
        ),
        (("bank.items", "--at", f"{SERVER}:999"), 1, "no entry of it was ever stored"),
        (("bank.items", "--at", "2027-01-05"), 1, "everything up to window 2026-03-01-10:20 is complete"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(
    config: Path, arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    done = call(config, *arguments)
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert done.exit_code == exit_code


@pytest.mark.more
def test_renamed_tables_and_shards_are_shown_though_nobody_saw_them_created(tmp_path: Path) -> None:
    """A renamed table by either name, a shard by its own; a merged table has no columns of its own at the source."""
    tables = [Table("old", [Field("id", INT, True)], ("bank", "old"))]
    tables += [Table(f"o{number}", [Field("id", INT, True)], (f"shop_{number}", "orders")) for number in range(3)]
    source = short_source(*tables)
    for number, table in enumerate(tables):
        source.transaction(border(0) + (1 + number) * SECOND, Dml(table, [(None, {"id": 1})]))
    for name in ("bank.old", "shop_1.orders"):
        source.transaction(border(0) + 9 * SECOND, Ddl(f"ALTER TABLE {name} ADD c INT"))
    source.checkpoint(border(0) + 300 * SECOND)
    routes = {"rename": {"bank.old": "bank.new"}, "merge": {"shop.orders": ["shop_*.orders"]}}
    bench = bench_in_process(tmp_path, "made")
    open_short(bench, tmp_path / "capture_made", source.messages, windows=WINDOWS, **routes).all(0)
    facts = {"folder": tmp_path, "every": EVERY.seconds // 60, "start": START.isoformat()}
    text = CONFIG.format(**facts, end=border(WINDOWS).isoformat()).replace(
        'columns: {"bank.items.n": {mask: hidden}}', "{routes}"
    )
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        text.replace("{routes}", "\n    ".join(f"{key}: {json.dumps(some)}" for key, some in routes.items()))
    )
    for name, shown, columns in (
        ("bank.old", "bank.old", ["id", "c"]), ("bank.new", "bank.old", ["id", "c"]),
        ("shop_1.orders", "shop_1.orders", ["id", "c"]), ("shop_2.orders", "shop_2.orders", ["id"]),
    ):  # fmt: skip
        done = call(file, name)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.startswith(f"{shown} as of window")
        assert [row[0] for row in cells(done.stdout) if len(row) == 7] == columns
    refused = call(file, "shop.orders")
    assert refused.exit_code == 2
    said = "shop.orders is merged from shop_0.orders, shop_1.orders and 1 more, each with columns of its own; name one of them"
    assert said in " ".join(refused.stderr.replace("│", " ").split())


def printed(folder: Path) -> str:
    """What the command of the page prints, of a lake with one table of the example."""
    file = shop_config(folder, "customers")
    shop_of(file).settle()
    return call(file, "shopdb.customers", "--at", "2026-01-05-03:00").stdout


@pytest.mark.long
def test_the_page_shows_what_the_command_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "schema-changes.md").read_text("utf-8")
    (block,) = re.findall(r"prints, of the example:\n\n```text\n(.*?)```", page, re.S)
    lines = [line for line in block.splitlines() if line != "..."]
    output = iter(line.rstrip() for line in printed(tmp_path).splitlines())
    assert len(lines) > 10
    assert [line for line in lines if line not in output] == []
