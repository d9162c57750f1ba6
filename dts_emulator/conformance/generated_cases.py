"""Cases of Oracle and SQL Server by DRS JSON: a seeded workload, and the model of its tables."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Literal

from dts_emulator.conformance.expected import Built, Case, ExpectedColumn, ExpectedTable
from dts_emulator.conformance.formats import DRS
from dts_emulator.drs.generated_sources import GeneratedSource

_RULE = f"{DRS}, table 4; pages of the sources: columns that a message lacks were not updated"
_CHANGES = 60
_COLUMNS = tuple(ExpectedColumn(name, "varchar") for name in ("ID", "NAME", "AMOUNT", "CV"))


def _built(kind: Literal["oracle", "sqlserver"], source_type: str, name: str) -> Built:
    source = GeneratedSource(kind, Random(1), partitions=2)
    messages = tuple(source.messages(_CHANGES))
    database = "" if kind == "oracle" else "shop"
    tables = tuple(
        ExpectedTable(database, schema, table, _COLUMNS, ("ID",), tuple(rows.values()))
        for (schema, table), rows in source.tables.items()
    )
    return Built(messages, tables, source_type, partitions=source.partitions)


GENERATED_CASES: tuple[Case, ...] = (
    Case(
        "oracle_sends_changed_columns_alone", "An UPDATE lacks columns that did not change; large values come late",
        "a column that is missing becomes NULL; a table without a database is lost", _RULE, ("drs-json",),
        partial(_built, "oracle", "Oracle"),
    ),
    Case(
        "sqlserver_sends_no_types", "Columns have no types, and names have blanks and signs",
        "a text that looks like a number or a date becomes another text", _RULE, ("drs-json",),
        partial(_built, "sqlserver", "Microsoft SQL Server"),
    ),
)  # fmt: skip
