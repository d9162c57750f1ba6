"""Statements that tell the time of their transaction count once, wherever they were sent again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dts_assets.model.formats import ChangeOrder
from dts_assets.model.positions import SourcePosition
from dts_assets.model.runs import SeenStatement
from dts_assets.model.spans import Cell
from dts_assets.model.windows import Window
from dts_assets.planning.topic_marks import TopicHistory
from tests.ledger_rows import ingest_row

START = datetime(2026, 1, 5, tzinfo=UTC)


def test_a_statement_with_the_time_of_its_transaction_counts_once_and_neighbours_are_several() -> None:
    cells = [Cell(0, Window(START + timedelta(hours=hour), START + timedelta(hours=hour + 1))) for hour in range(2)]
    told = [SeenStatement("", offset, SourcePosition(0, 0, 500), None, START) for offset in (3, 4, 8)]
    rows = [
        ingest_row(cells[0], statements=tuple(told)),
        ingest_row(cells[1], statements=(replace(told[0], offset=20),)),
    ]
    history = TopicHistory.of(rows, (), order=ChangeOrder.ARRIVAL)
    assert history.statements == {cells[0]: frozenset({3, 4})}
