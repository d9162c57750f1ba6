"""The loss table of docs/formats.md: each cell is what one workload, sent in every encoding, was found to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dts_assets.model.formats import ChangeOrder, Evidence
from dts_assets.model.problems import Reason
from dts_assets.settings.formats import registered_formats, traits_of
from dts_emulator.tasks.vendor_tasks import FORMATS
from tests.wire.encodings import PROBES, WHOLE_IMAGES, Told, told
from tests.wire.scenarios import DATA, Scenario

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
CLOCK = datetime(2026, 1, 5, 8, 0, 0, 123456)
INSTANT = datetime(2026, 1, 5, 0, 0, 0, 123456, UTC)


def inserted(found: Told) -> Mapping[str, Any]:
    row: Mapping[str, Any] = found.changes[0]["after"]
    return row


def kept(found: Told, *names: str) -> bool:
    """Whether values are the source's, as the database would show them."""
    expected = {
        "far": "-838:59:59", "year": 2026, "double": 0.1 + 0.2, "single": 16777216.0, "gbk": "李雷 <a href='x'>&=", "empty": "",
        "nothing": None, "label": "old", "labels": "a,c", "blob": bytes(range(256)), "document": '{"a": "b\\n"}', "zero": None,
    }  # fmt: skip
    return all(inserted(found)[name] == expected[name] for name in names)


def yes(answer: bool) -> str:
    return "yes" if answer else "no"


def sign(found: Told, name: str) -> str:
    assert (inserted(found)["signed"], inserted(found)["unsigned"]) == (-5, 4_294_967_295)
    assert inserted(found)["huge"] == 18_446_744_073_709_551_615
    return {("int", "bigint"): "yes", ("bigint", "bigint"): "no: `bigint` holds both"}[
        found.types["signed"], found.types["unsigned"]
    ]


def precision(found: Told, name: str) -> str:
    assert str(inserted(found)["price"]) == "-1234567890.10"
    return {"decimal(12,2)": "yes", "string": "no: text"}[found.types["price"]]


def fractions(found: Told, name: str) -> str:
    row = inserted(found)
    for one, whole in ((row["clock"], CLOCK), (row["instant"], INSTANT)):
        assert one.replace(microsecond=0) == whole.replace(microsecond=0)
    micros = {row["clock"].microsecond, row["instant"].microsecond}
    return {(123456,): "microseconds", (123000,): "**milliseconds**"}[tuple(micros)]


def instants(found: Told, name: str) -> str:
    elsewhere = inserted(told(name, zone="+08:00"))
    assert elsewhere["clock"] == inserted(found)["clock"]
    hours = (inserted(found)["instant"] - elsewhere["instant"]).total_seconds() / 3600
    return {0: "an instant", 8: "wall clock of `source_time_zone`"}[hours]


def clocks(found: Told, name: str) -> str:
    assert dict(found.changes[0]["invalid"]) == {"after.zero": "0000-00-00"}
    return yes(kept(found, "far", "year", "zero"))


def bits(found: Told, name: str) -> str:
    return {200: "a number", "200": "text"}[inserted(found)["bits"]]


def not_sent(found: Told, name: str) -> str:
    if name in WHOLE_IMAGES:
        (refused,) = found.refused
        assert refused.reason is Reason.RAGGED_ROW
        assert [one["op"] for one in found.changes] == ["insert", "insert", "delete"]
        return "no: the message is refused"
    change = found.changes[2]
    assert change["op"] == "update"
    assert change["after"]["signed"] == 5
    assert {f"after.{column}" for column in PROBES if column != "signed"} == {
        one for one in change["absent"] if one.startswith("after.")
    }
    assert change["before"]["id"] == 7
    assert {f"before.{column}" for column in PROBES if column != "id"} == {
        one for one in change["absent"] if one.startswith("before.")
    }
    return "yes"


def rows_of_an_event(found: Told, name: str) -> str:
    rows = [one["rows"] for one in found.entries if one["message_type"] == "DML"]
    if traits_of(name).rows_apart:
        assert rows == [1, 1, 1, 1]
        return "a message each"
    folders = [Scenario(folder) for folder in sorted((DATA / name).iterdir()) if folder.is_dir()]
    assert any((one.get("rows") or 0) > 1 for scenario in folders for one in scenario.expected["entries"])
    return "in one message"


def place(found: Told, name: str) -> str:
    dml = [one for one in found.entries if one["message_type"] == "DML"]
    order = traits_of(name).order
    if order is ChangeOrder.BINLOG_POSITION:
        assert all(one["file_name"] and one["position"] is not None for one in dml)
        return "its position in the binlog"
    assert not any(one["file_name"] for one in dml)
    assert all((one["position"] is None) == (order is ChangeOrder.ARRIVAL) for one in dml)
    return "**nothing: copies stay**" if order is ChangeOrder.ARRIVAL else "an `id` of the task"


def evidence(which: Evidence, seen: Callable[[Told], bool]) -> Callable[[Told, str], str]:
    def cell(found: Told, name: str) -> str:
        promised = which in traits_of(name).evidence
        assert seen(found) == promised
        return yes(promised)

    return cell


def numbers(found: Told, name: str) -> str:
    promised = Evidence.SEQUENCE_NUMBERS in traits_of(name).evidence
    assert found.numbered == promised
    return yes(promised)


def statements(found: Told, name: str) -> str:
    (one,) = [one for one in found.entries if one["message_type"] == "DDL"]
    texts = dict(one["properties"]).get("sql"), one["payload"].decode(errors="replace")
    return yes(any("ALTER TABLE t ADD note TEXT" in (text or "") for text in texts))


def full_load(found: Told, name: str) -> str:
    folders = [Scenario(folder) for folder in sorted((DATA / name).iterdir()) if folder.is_dir()]
    changes = (rows for scenario in folders for rows in scenario.expected["changes"].values())
    return yes(any(row["op"] == "read" for rows in changes for row in rows))


def level(found: Told, name: str) -> str:
    proofs = traits_of(name).evidence
    assert proofs in (frozenset(Evidence), frozenset())
    return "`proven`" if proofs else "`observed`"


TABLE: Mapping[str, Callable[[Told, str], str]] = {
    "sign of integers": sign,
    "precision of decimals": precision,
    "BIT": bits,
    "FLOAT and DOUBLE, exactly": lambda found, _: yes(kept(found, "double", "single")),
    "fractions of seconds": fractions,
    "TIMESTAMP": instants,
    "TIME beyond a day, YEAR, zero dates": clocks,
    "text in any character set": lambda found, _: yes(kept(found, "gbk")),
    "empty text apart from NULL": lambda found, _: yes(kept(found, "empty", "nothing")),
    "labels of ENUM and SET": lambda found, _: yes(kept(found, "label", "labels")),
    "JSON": lambda found, _: yes(kept(found, "document")),
    "bytes": lambda found, _: yes(kept(found, "blob")),
    "a column that was not sent": not_sent,
    "rows of one event": rows_of_an_event,
    "what tells copies, and orders changes": place,
    "GTIDs": evidence(Evidence.GTIDS, lambda found: any(one["gtid"] for one in found.entries)),
    "BEGIN and COMMIT": evidence(
        Evidence.TRANSACTIONS, lambda found: {"BEGIN", "COMMIT"} <= {one["message_type"] for one in found.entries}
    ),
    "CHECKPOINTs": evidence(Evidence.CHECKPOINTS, lambda found: bool(found.decoded.checkpoints)),
    "numbers of messages (`ps`)": numbers,
    "statements (DDL)": statements,
    "full load": full_load,
    "best level of a window": level,
}


def printed() -> dict[str, dict[str, str]]:
    """The table as the page has it: cells by row and format."""
    lines = PAGE.read_text().partition("## What they carry")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    formats = [name.strip("`") for name in rows[0][1:]]
    return {row[0]: dict(zip(formats, row[1:], strict=True)) for row in rows[2:]}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("row", TABLE)
def test_a_cell_of_the_table_is_what_is_found(row: str, name: str) -> None:
    assert printed()[row][name] == TABLE[row](told(name), name)


def test_the_table_has_these_rows_and_every_format() -> None:
    found = printed()
    assert list(found) == list(TABLE)
    assert all(set(cells) == set(FORMATS) == set(registered_formats()) for cells in found.values())


@pytest.mark.parametrize("name", FORMATS)
def test_beside_its_losses_an_encoding_tells_the_same_changes(name: str) -> None:
    found, whole = told(name).changes, told("dts-protobuf").changes
    whole = [one for one in whole if name not in WHOLE_IMAGES or one["op"] != "update"]
    assert [one["op"] for one in found] == [one["op"] for one in whole]
    for mine, theirs in zip(found, whole, strict=True):
        for side in ("before", "after"):
            if mine["op"] == "update":
                continue  # of a minimal image `not_sent` tells
            assert _shown(mine[side]) == _shown(theirs[side])


def _shown(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A row with what some encodings lose left out: microseconds, and the types of numbers that others send as text."""
    if row is None:
        return None
    texts = {name: str(row[name]) for name in ("price", "bits")}
    millis = {name: row[name].replace(microsecond=0) for name in ("clock", "instant")}
    return {**row, **texts, **millis}
