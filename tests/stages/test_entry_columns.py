"""Columns of entries say row for row what the texts and numbers of the batch say, for all shards and for each."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dts_assets.model.gtids import server_and_number
from dts_assets.model.positions import file_number
from dts_assets.stages.entry_columns import EntryColumns
from dts_assets.stages.gtid_columns import GtidColumn
from dts_assets.wire.format import Checkpoint

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SERVERS = st.sampled_from([UUID, UUID.upper(), f"{UUID}:tag", "0-1", "0-2", "12-7", "a", "-", ":", "a\nb"])
TEXTS = st.one_of(
    st.builds("{}{}{}".format, SERVERS, st.sampled_from(":-"), st.integers(0, 10**18)),
    st.builds("{}:{}".format, st.just(UUID), st.integers(0, 30)),
    st.text(alphabet=":-019a\n٣", max_size=8),
    st.text(max_size=8),
)
KINDS = ("BEGIN", "COMMIT", "DML", "DDL", "ROLLBACK", "CHECKPOINT", "HEARTBEAT", "INIT_DDL")


@given(st.lists(st.none() | TEXTS, max_size=12))
def test_a_column_of_gtids_is_read_as_each_of_them(texts: list[str | None]) -> None:
    column = GtidColumn.of(pa.array(texts, pa.string()))
    numbers, servers = column.row_numbers()
    found = [
        (column.names[server], number) if server >= 0 else None
        for server, number in zip(servers.tolist(), numbers.tolist(), strict=True)
    ]
    assert found == [None if text is None else server_and_number(text) for text in texts]
    assert [column.text(code) for code in column.codes.tolist()] == texts


ROWS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.none() | st.sampled_from([f"{UUID}:{number}" for number in range(1, 5)]),
        st.none() | st.sampled_from(["mysql-bin.000003", "mysql-bin.000004", "odd"]),
        st.none() | st.sampled_from([0, 7, 1 << 41]),
        st.none() | st.integers(0, 9),
        st.sampled_from([None, "", "s1", "s2"]),
    ),
    max_size=12,
)


@given(ROWS)
def test_each_shard_has_its_own_entries_with_nothing_in_the_place_of_nulls(
    rows: list[tuple[str, str | None, str | None, int | None, int | None, str | None]],
) -> None:
    kinds, gtids, files, positions, numbers, shards = zip(*rows, strict=True) if rows else ((),) * 6
    batch = pa.RecordBatch.from_pydict(
        {
            "set_index": pa.array(range(len(rows)), pa.int32()),
            "message_type": pa.array(kinds, pa.string()),
            "source_type": pa.array([None] * len(rows), pa.string()),
            "event_time": pa.array(numbers, pa.timestamp("us", tz="UTC")),
            "gtid": pa.array(gtids, pa.string()),
            "server_id": pa.array(numbers, pa.int64()),
            "seq_id": pa.array(numbers, pa.int64()),
            "file_name": pa.array(files, pa.string()),
            "position": pa.array(positions, pa.int64()),
        }
    )
    sets = pa.RecordBatch.from_pydict(
        {
            "last_offset": pa.array([10 + number for number in range(len(rows))], pa.int64()),
            "shard": pa.array(shards, pa.string()),
        }
    )
    columns = EntryColumns.of(batch, sets, tuple(Checkpoint(row, "", 0, None) for row in range(len(rows))))
    found = {}
    for shard, mine in columns.of_shards():
        assert sorted(range(len(mine)), key=lambda row: mine.keys[row]) == sorted(range(len(mine)), key=mine.place)
        for row in range(len(mine)):
            kind = KINDS[mine.kinds[row]] if mine.kinds[row] >= 0 else "INIT_DDL"
            gtid, told = mine.gtids.text(int(mine.gtids.codes[row])), (mine.server_ids, mine.times, mine.seq_ids)
            values = [int(column[row]) for column in told]
            found[int(mine.offsets[row]) - 10] = (shard, kind, gtid, mine.place(row), bool(mine.placed[row]), values)
    expected = {}
    for row, (kind, gtid, file, position, number, of_shard) in enumerate(rows):
        place, placed = (file_number(file or ""), position or 0), file is not None or bool(position)
        expected[row] = (of_shard or "", kind, gtid, place, placed, [number or 0] * 3)
    assert found == expected
    assert [columns.shard(one.index) for one in columns.checkpoints] == [shard or "" for *_, shard in rows]
