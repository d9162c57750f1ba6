"""The commands that documents name, in blocks of code and in backquotes within the text, and how each is tested.

A command is a line of a shell that begins with a program of this project, ``make``, or a tool that a document tells to use.
"""

from __future__ import annotations

import re
from pathlib import Path

HOUSE = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [HOUSE / "README.md", HOUSE / "CONTRIBUTING.md", HOUSE / "examples" / "README.md", *(HOUSE / "docs").glob("*.md")]
)

PROGRAMS = r"(?:\.venv/bin/)?(?:dts-assets|dagster|python|pip|pre-commit|pytest)|make|git|export|kill|source|\."
_COMMAND = re.compile(rf"(?:DTS_ASSETS_TESTS=all )?(?:{PROGRAMS}) \S.*")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
_INDENTED = re.compile(r"(?<=\n\n)((?:    .*\n|\n)+)")
_QUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMENT = re.compile(r"\s+#\s.*$", re.M)
_SHELLS = ("", "sh", "bash", "shell")


def commands_in(document: Path) -> set[str]:
    """Return the commands of a document, each on one line, without comments."""
    text = document.read_text("utf-8")
    blocks = [block for _, language, block in _FENCE.findall(text) if language in _SHELLS]
    rest = _FENCE.sub("", text)
    blocks += _INDENTED.findall(rest)
    lines = [line for block in blocks for line in _lines(block)]
    lines += [" ".join(quoted.replace("\\|", "|").split()) for quoted in _QUOTED.findall(_INDENTED.sub("", rest))]
    return {line for line in lines if _COMMAND.fullmatch(line)}


def _lines(block: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", _COMMENT.sub("", block))
    return [line.strip() for line in joined.splitlines()]


ENTER = (
    "source .venv/bin/activate",
    "export DAGSTER_HOME=$PWD/dagster_home DTS_ASSETS_CONFIG=$PWD/pipeline.yaml",
)
"""The commands that README asks for once in each shell. They run before every other one."""

CHEAP = (
    "dts-assets --help",
    "dts-assets capture --help",
    "dts-assets inspect --help",
    "dts-assets config check",
    "dts-assets config check --connect",
    "dts-assets config schema",
    "dts-assets sniff examples/shop",
    "dts-assets faults examples/shop damaged",
    "dts-assets statements --capture examples/shop --format dts-protobuf --table shopdb.coupons",
    "python -m dts_emulator.conformance ./suite",
)
"""Commands that need no lake. They run in the first tier."""

_INGEST = "dagster asset materialize --select 'shop/raw_envelopes,shop/entries'"
_TABLES = "dagster asset materialize --select 'group:shop_changelog or group:shop_snapshot'"
_DEFINITIONS = "-m dts_assets.definitions"

IN_ORDER = (
    "dts-assets run",
    f"{_INGEST} --partition 'p00|2026-01-05-03:00' {_DEFINITIONS}",
    f"{_INGEST} --partition-range 'p00|2026-01-05-00:00...p03|2026-01-05-07:00' {_DEFINITIONS}",
    f"{_TABLES} --partition-range '2026-01-05-02:00...2026-01-05-04:00' {_DEFINITIONS}",
    f"{_TABLES} --partition-range '2026-01-05-00:00...2026-01-05-07:00' {_DEFINITIONS}",
    "dagster job backfill -j shop_tables --noprompt --from 2026-01-05-02:00 --to 2026-01-05-04:00",
    "dts-assets inspect window 2026-01-05T07:00",
    "dts-assets keys shop",
    "dts-assets rules check shop",
    "dts-assets rules apply shop",
    "dts-assets statements shop --out shop.sql",
    "dts-assets schema shopdb.customers",
    "dts-assets schema shopdb.customers --at 2026-01-05-03:00",
    "dts-assets as-of shop --window 2026-01-05-03:00 --out ./at_three",
    "dts-assets as-of shop --time 2026-01-05T03:30 --out ./half_past",
    "dts-assets as-of shop --position 0:2:6010828 --table shopdb.orders --out ./orders",
    "dts-assets size shop",
    "dts-assets maintain shop --dry-run",
    "dts-assets maintain shop",
    "dts-assets maintain shop --only expiry --only orphans",
    "dts-assets redrive shop",
    "dts-assets redrive shop --from 2026-01-05T02:00 --reason undecodable_entry",
    "dts-assets copies shop",
    "dts-assets tables",
    'dts-assets tables pause shopdb.orders --reason "the key is being changed"',
    "dts-assets tables resume shopdb.orders",
    "dts-assets tables rebuild shopdb.orders",
    "dts-assets tables rebuild shopdb.orders --from entries",
    ".venv/bin/python -c \"from pyiceberg.catalog.sql import SqlCatalog; print(SqlCatalog('lake', uri='sqlite:///lake/catalog.db')"
    ".load_table('shop.snapshot.shopdb.orders').scan(limit=5).to_pandas())\"",
    "dts-assets tables remove shopdb.orders",
    "dts-assets tables add shopdb.orders",
    "dts-assets verify files",
    "dts-assets verify files shop --json",
)
"""Commands that make the lake of the example, and commands that read it. They run one after the other, in the long tier."""

NAMED = (
    "dts-assets faults",
    "dts-assets as-of",
    "dts-assets verify",
    "dts-assets inspect",
    "dts-assets spark-server",
)
"""Names of commands that want arguments, or that do not end. Their help is asked for."""

NOT_RUN = {
    "dts-assets run --config FILE": "names a file of the reader's",
    "dts-assets sniff --bootstrap-servers broker:9092 --topic shop --topic shop-ddl --setting security.protocol=sasl_ssl "
    "--setting sasl.mechanism=SCRAM-SHA-512 --setting sasl.username=reader --setting 'sasl.password=${SHOP_PASSWORD}' "
    "--out pipeline.yaml": "reads a broker of the reader's; tests/cli/test_sniff.py does",
    "dts-assets freshness commits.jsonl --last 600": "reads the log of a live pipeline; make live shows it",
    "python -m dts_emulator.tasks --socket /run/mysqld/mysqld.sock --bootstrap-servers 127.0.0.1:9092 --topic dts "
    "--partitions 4 --checkpoint task.json": "follows a server and a broker of the reader's; tests/dts_emulator/tasks does",
    "python -m dts_emulator.workload --socket /run/mysqld/mysqld.sock --rate 500 --ddl --log commits.jsonl":
        "works on a server of the reader's without end; tests/dts_emulator/workload does",
    "python -m dts_emulator.conformance --judge ./suite --results ./mine":
        "wants rows of another consumer; tests/dts_emulator/conformance makes some",
    "python -m dts_emulator.conformance ./suite --with-servers": "starts servers; tests/dts_emulator/conformance does",
    "python -m benchmarks.backfill": "takes minutes; tests/benchmarks runs it with few windows",
    "python -m examples.shop_maker": "writes the example anew, which is in the repository",
    "dts-assets prove shop --into mysql://root@127.0.0.1:3307/": "fills a server of the reader's; tests/cli/test_prove.py does",
    'pip install "dts-assets[postgres]"': "installs a package from a network",
    'pip install "dts-assets[mysql]"': "installs a package from a network",
    "dts-assets copies shop --cancel shopdb.orders": "wants a copy that is being read; tests/e2e/test_copies_of_a_database.py",
    "dts-assets copy shop": "reads a database of the reader's; tests/e2e/test_copies_of_a_database.py does",
    "dts-assets copy shop --table shopdb.orders": "reads a database of the reader's; tests/e2e does",
    "dts-assets resync shop shopdb.orders": "reads a database of the reader's; tests/e2e/test_copies_of_a_database.py does",
    "dts-assets verify shop --repair": "asks a database of the reader's; tests/flows/test_repairs.py has one",
    "dts-assets verify source shop": "asks a database of the reader's; tests/cli/test_verify.py has one",
    "dts-assets verify shop": "asks a database of the reader's; tests/cli/test_verify.py has one",
    "dts-assets verify shop --table shopdb.orders --show-values": "asks a database of the reader's",
    "python -m tests.remote.matrix --master local --store rest": "takes a minute; tests/remote runs other cells",
    "git clone <your fork>": "names a place of the reader's",
    ".venv/bin/pre-commit install": "changes the checkout",
    ".venv/bin/python -m pytest tests/wire": "is a part of make test",
    "DTS_ASSETS_TESTS=all .venv/bin/python -m pytest tests/live": "is a part of make test-all",
    "kill -USR1": "wants the id of a process",
    "kill -USR2": "wants the id of a process",
    "kill -9": "wants the id of a process",
}  # fmt: skip
"""Commands that no test runs, each with the reason."""

MAKE = "make "
"""The beginning of commands whose targets are whole jobs. `make -n` shows that each is there and takes its variables."""
