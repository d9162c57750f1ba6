"""A law of every lake: each snapshot's sum, and each row's own part, are those of the rows that stand."""

from __future__ import annotations

from hashlib import md5

import pyarrow as pa

from dts_assets.flows.compared_snapshots import stored_total
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.row_sum_counts import summed_columns
from dts_assets.model.stored_sums import SUMS_PROPERTY, StoredSums
from dts_assets.model.tables import TableId
from dts_assets.stages.row_sums import row_texts
from dts_assets.store.types import arrow_schema


def sums_that_hold(pipeline: Pipeline) -> dict[TableId, int | None]:
    """The stored sum of each snapshot, compared with its rows; None where nobody has added them up."""
    found = dict[TableId, int | None]()
    for name in known_tables(pipeline):
        table = pipeline.lake.table(pipeline.table_path("snapshot", name))
        head = None if table is None else table.current_snapshot()
        if table is None or head is None or head.summary is None:
            continue
        try:
            rows = table.scan().to_arrow()
        except OSError:  # a test has taken its files away
            continue
        if "_deleted_at" in rows.schema.names:
            rows = rows.filter(pa.compute.is_null(rows["_deleted_at"]))
        columns, parts = summed_columns(arrow_schema(table.schema())), list[int]()
        for batch in rows.to_batches():
            texts = row_texts(batch, columns).to_pylist()
            parts += [int(md5(text).hexdigest()[:15], 16) for text in texts]
        stored = StoredSums.of_text(head.summary.additional_properties.get(SUMS_PROPERTY))
        if stored is not None and not stored.is_doubtful:
            own = rows["_sum"].to_pylist()
            assert [one for one, part in zip(own, parts, strict=True) if one not in (None, part)] == [], name
        found[name] = stored_total(table)
        assert found[name] in (None, sum(parts)), name
    return found
