"""``python -m tests.remote.postgres_events``: what an event of Dagster costs in PostgreSQL, in ours and in Dagster's own storage.

Each storage gets a database of its own on a private server, and a run over 180 partitions of two assets with a check each.
The storages take turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from dts_emulator.postgresql.server import private_postgres
from tests.defs import test_postgres_log as storages

RANGE = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-06-29"}
BATCHED, OWN, OWN_IN_BATCHES = "batched", "Dagster's own", "Dagster's own, DAGSTER_EVENT_BATCH_SIZE=500"
_SIZE = "DAGSTER_EVENT_BATCH_SIZE"


def measured(server: str, storage: str, number: int) -> str:
    """Run over all partitions, and return a line with the cost of an event."""
    engine = create_engine(make_url(server).set(drivername="postgresql+psycopg2"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE events{number}"))
    engine.dispose()
    url = make_url(server).set(database=f"events{number}").render_as_string()
    os.environ.pop(_SIZE, None)
    if storage == OWN_IN_BATCHES:
        os.environ[_SIZE] = "500"
    asked = storages.ours(url) if storage == BATCHED else storages.dagsters(url)
    with tempfile.TemporaryDirectory() as home, storages.instance_of(Path(home), asked) as instance:
        os.environ["DAGSTER_HOME"] = home
        began, processor = time.perf_counter(), time.process_time()
        run = storages.materialize(instance, RANGE)
        took, processor = time.perf_counter() - began, time.process_time() - processor
        events = len(instance.get_records_for_run(run).records)
    return f"{storage}: {events} events in {took:.1f} s, {1000 * took / events:.1f} ms an event, processor {processor:.1f} s"


def main() -> int:
    """The command."""
    with private_postgres() as server:
        for number, storage in enumerate((BATCHED, OWN, OWN_IN_BATCHES) * 2):
            sys.stdout.write(f"{measured(server, storage, number)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
