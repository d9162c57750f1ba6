"""The next truncation of each row's shard, held against a loop over all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.shard_truncations import Shard, emptied_rows, next_truncations

PLACES = st.builds(SourcePosition, st.integers(0, 1), st.integers(0, 2), st.integers(0, 4))
PARTS = st.sampled_from(["a", "b", "c"])
SHARDS = st.one_of(
    st.tuples(PARTS, PARTS), st.tuples(PARTS, st.just("")), st.tuples(st.just(""), PARTS), st.just(("", ""))
)
ROWS = st.lists(st.tuples(PLACES, st.tuples(st.none() | PARTS, PARTS)), max_size=12)


def empties(truncation: tuple[SourcePosition, Shard], row: tuple[SourcePosition, tuple[str | None, str]]) -> bool:
    return row[0] <= truncation[0] and all(
        part in ("", value) for part, value in zip(truncation[1], row[1], strict=True)
    )


@given(ROWS, st.lists(st.tuples(PLACES, SHARDS), min_size=1, max_size=8))
def test_each_row_finds_the_next_truncation_of_its_shard(
    rows: list[tuple[SourcePosition, tuple[str | None, str]]], truncations: list[tuple[SourcePosition, Shard]]
) -> None:
    ordered = sorted(truncations)
    columns = [pa.array([row[1][place] for row in rows], pa.string()) for place in (0, 1)]
    lineage, file, position = (
        np.array([getattr(row[0], name) for row in rows], np.int64) for name in ("lineage", "file", "position")
    )
    found = next_truncations(columns, (lineage, file, position), ordered)
    expected = [next((n for n, one in enumerate(ordered) if empties(one, row)), len(ordered)) for row in rows]
    assert found.tolist() == expected
    emptied = emptied_rows(columns, (lineage, file, position), truncations)
    assert emptied.tolist() == [number < len(ordered) for number in expected]
