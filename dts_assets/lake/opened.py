"""A subscription's lake, opened by the configuration file, and its tables as of a moment."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dts_assets.errors import UnknownNameError
from dts_assets.flows.known_tables import known_tables
from dts_assets.flows.moment_costs import costs_of
from dts_assets.flows.moments import make_tables, plan_moment
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.this_process import this_process
from dts_assets.lake.moments import moment_given
from dts_assets.lake.tables import LakeTables, Plan
from dts_assets.model.tables import TableId
from dts_assets.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.flows.reports import Progress


def open_lake(subscription: str, config: str | Path | None = None) -> Lake:
    """Open the lake of a subscription. Nothing is read yet.

    ``config`` is the configuration file; None stands for the file that the command would take.

    Raises:
        ConfigurationError: The file is not there, or has mistakes.
        UnknownNameError: The file has no such subscription.
    """
    settings = load_settings(None if config is None else Path(config))
    if subscription not in settings.subscriptions:
        there = ", ".join(settings.subscriptions)
        raise UnknownNameError("The configuration", f"subscription {subscription}", f"there are {there}")
    return Lake(open_pipeline(settings, subscription, only_read=True))


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of a subscription. They are only read."""

    pipeline: Pipeline

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables: ``("shopdb.customers", "shopdb.orders")``."""
        return tuple(sorted(map(str, known_tables(self.pipeline))))

    def plan(
        self,
        *,
        gtid: str | None = None,
        position: str | None = None,
        time: datetime | str | None = None,
        window: datetime | str | None = None,
        tables: Collection[str | TableId] | None = None,
    ) -> Plan:
        """Find a moment, and say what its tables are made from and what that costs. No row is read.

        Name one moment, or none for the present: a transaction's ``gtid``, a ``position`` (``0:4:1187``), a ``time`` (a text
        without a zone is UTC) or a ``window`` by its key or start. ``tables`` are names as at the source; None stands for all.

        Raises:
            ValueError: The moment is written otherwise, or several are named.
            NothingFoundError: The moment is not known, not everything up to it is there, or a table is not known.
            RowsRemovedError: Retention has removed what would tell the moment.
        """
        moment = moment_given(gtid=gtid, position=position, time=time, window=window)
        chosen = None if tables is None else {self._table(one) for one in tables}
        found = plan_moment(self.pipeline, moment, tables=chosen)
        return Plan(self.pipeline, found, costs_of(self.pipeline, found))

    def as_of(
        self,
        *,
        gtid: str | None = None,
        position: str | None = None,
        time: datetime | str | None = None,
        window: datetime | str | None = None,
        tables: Collection[str | TableId] | None = None,
        folder: str | Path | None = None,
        spark: SparkSession | None = None,
        progress: Progress = lambda _: None,
    ) -> LakeTables:
        """Return tables as they were at a moment, all at the same one, which counts itself.

        The moment and ``tables`` are those of :meth:`plan`, which says the work before. New files lie in ``folder``, or in a
        temporary one that goes with the tables. With ``spark`` the work is done there, and in this process without it.

        Raises:
            ValueError: The moment is written otherwise, or several are named.
            NothingFoundError: The moment is not known, not everything up to it is there, or a table is not known.
            RowsRemovedError: Retention has removed what would tell the moment.
        """
        moment = moment_given(gtid=gtid, position=position, time=time, window=window)
        chosen = None if tables is None else {self._table(one) for one in tables}
        plan = plan_moment(self.pipeline, moment, tables=chosen)
        return _made(Plan(self.pipeline, plan, {}), folder, spark, progress)

    def now(self, *, tables: Collection[str | TableId] | None = None, folder: str | Path | None = None) -> LakeTables:
        """Return tables as of the last window that is complete, all at the same cut.

        Runs may go on meanwhile.

        Raises:
            NothingFoundError: No window is complete yet, or a table is not known.
        """
        return self.as_of(tables=tables, folder=folder)

    def make(
        self,
        plan: Plan,
        *,
        folder: str | Path | None = None,
        spark: SparkSession | None = None,
        progress: Progress = lambda _: None,
    ) -> LakeTables:
        """Make the tables of a plan, as :meth:`as_of` does."""
        return _made(plan, folder, spark, progress)

    def _table(self, name: str | TableId) -> TableId:
        known = tuple(known_tables(self.pipeline))
        found = [one for one in known if (one == name if isinstance(name, TableId) else one.is_called(name))]
        if len(found) == 1:
            return found[0]
        hint = (
            f"it may be {' or '.join(one.exact_name for one in found)}"
            if found
            else f"it has {', '.join(sorted(map(str, known))[:20]) or 'none yet'}"
        )
        raise UnknownNameError(f"Subscription {self.pipeline.name}", f"one table {name}", hint)


def _made(plan: Plan, folder: str | Path | None, spark: SparkSession | None, progress: Progress) -> LakeTables:
    temporary = tempfile.TemporaryDirectory(prefix="dts-assets-moment-") if folder is None else None
    place = Path(temporary.name if temporary is not None else folder or "")
    provider = this_process if spark is None else lambda: spark
    made = make_tables(plan.pipeline, plan.moment, place, spark=provider, progress=progress)
    return LakeTables(made, place, plan.pipeline.lake.location, temporary)
