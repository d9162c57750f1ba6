"""Places of changes in columns: positions of several logs and lineages are compared as numbers, part by part."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.positions import SourcePosition
from dts_assets.stages.row_places import Place, at_or_before, begun_at

PLACES = st.builds(SourcePosition, st.integers(0, 2), st.integers(0, 2), st.integers(0, 4))


def columns(places: list[SourcePosition]) -> Place:
    parts = ([one.lineage for one in places], [one.file for one in places], [one.position for one in places])
    lineage, file, offset = (np.array(part, np.int64) for part in parts)
    return lineage, file, offset


@given(st.lists(PLACES, max_size=6), st.lists(PLACES, max_size=8))
def test_each_place_has_the_positions_that_begun_before_it(
    begins: list[SourcePosition], rows: list[SourcePosition]
) -> None:
    expected = [sum(begin <= row for begin in begins) for row in rows]
    assert begun_at(sorted(begins), columns(rows)).tolist() == expected


@given(PLACES, st.lists(PLACES, max_size=8))
def test_changes_are_compared_with_a_position_as_positions_are(
    until: SourcePosition, rows: list[SourcePosition]
) -> None:
    shape = pa.struct([(name, pa.int64()) for name in ("lineage", "file", "position")])
    told = pa.array([(one.lineage, one.file, one.position) for one in rows], shape)
    changes = pa.RecordBatch.from_arrays([told], ["source_position"])
    assert at_or_before(changes, until).tolist() == [row <= until for row in rows]


@given(PLACES)
def test_a_position_stands_between_its_neighbours(place: SourcePosition) -> None:
    assert place.previous < place < place.next
    assert (place.previous.next, place.next.previous) == (place, place)
