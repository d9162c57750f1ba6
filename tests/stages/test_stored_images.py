"""Images of changelog rows tell of each wanted column what was sent, also of columns that are wanted twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dts_assets.stages.stored_images import IMAGES, StoredImages

IMAGE = pa.struct([("id", pa.int32()), ("note", pa.string()), ("Note", pa.string())])
CHANGES = pa.schema([
    ("before", IMAGE), ("after", IMAGE), ("absent", pa.list_(pa.string())), ("invalid", pa.map_(pa.string(), pa.string())),
])  # fmt: skip
ROWS = pa.RecordBatch.from_pylist(
    [
        {"before": {"id": 1}, "after": {"note": "a"}, "absent": ["before.note", "after.id"], "invalid": []},
        {"before": {"id": 2}, "after": {"id": 3}, "absent": ["after.note", "after.Note"], "invalid": []},
        {"before": {"id": None}, "after": {"id": 4, "Note": "b"}, "absent": [],
         "invalid": [("before.id", "x"), ("after.note", "y")]},
    ],
    schema=CHANGES,
)  # fmt: skip


def told(images: StoredImages, image: str, column: int) -> tuple[list[bool] | None, list[str | None] | None]:
    absent, texts = images.absent(image, column), images.texts(image, column)
    return None if absent is None else absent.tolist(), None if texts is None else texts.to_pylist()


def test_a_column_tells_where_it_was_not_sent_and_what_did_not_fit() -> None:
    images = StoredImages(ROWS, [["id"], ["Note", "note"]])
    assert told(images, "before", 0) == (None, [None, None, "x"])
    assert told(images, "after", 0) == ([True, False, False], None)
    assert told(images, "before", 1) == ([True, False, False], None)
    assert told(images, "after", 1) == ([False, True, False], [None, None, "y"])


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(1), ROWS.slice(2)])
def test_columns_that_are_wanted_under_one_name_tell_alike(rows: pa.RecordBatch) -> None:
    """A column of a former key is wanted as the key, and as a value."""
    names = [["id"], ["note"], ["id"], ["Note", "note"], ["id"]]
    images = StoredImages(rows, names)
    for image in IMAGES:
        for place, name in enumerate(names):
            assert told(images, image, place) == told(StoredImages(rows, [name]), image, 0)
