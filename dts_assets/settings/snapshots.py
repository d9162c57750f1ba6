"""The part of a subscription that says what snapshots show."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from dts_assets.model.added_columns import AUDIT, DELETED_AT, AuditColumn
from dts_assets.model.layouts import UNPARTITIONED, Layout
from dts_assets.model.routes import Routes
from dts_assets.model.schema_policies import SchemaPolicy
from dts_assets.model.tables import TableId
from dts_assets.settings.documents import Flattened, document_requests, documents_shown
from dts_assets.settings.layouts import SnapshotLayout
from dts_assets.settings.places import Part
from dts_assets.settings.schema_changes import columns_for, policy_for, policy_requests
from dts_assets.settings.values import Deletes, Glob, SchemaChanges
from dts_assets.settings.verification import Verification


class Snapshots(Part):
    """The settings of snapshots: deleted rows, columns on request, layouts, and documents."""

    _by_set: bool = PrivateAttr(default=False)

    deletes: Deletes = Field(
        default_factory=dict,
        description="hard: a deleted row leaves snapshots; soft: it stays, with _deleted_at; or one of them by globs.",
        json_schema_extra={"default": "hard"},
    )
    schema_changes: SchemaChanges = Field(
        default_factory=dict,
        description="What a snapshot does when its table's columns change: follow, keep, freeze or stop; or one by globs.",
        json_schema_extra={"default": "follow"},
    )
    audit_columns: tuple[AuditColumn, ...] = Field(
        (), description="Facts about a row's last change that snapshots show in columns of their own: op is _op."
    )
    layout: dict[Glob, SnapshotLayout] = Field(
        default_factory=dict,
        description="Partition fields and sorting of snapshots, by globs of which the first that matches counts.",
    )
    cut_tags: int = Field(
        48,
        ge=0,
        le=1000,
        description="How many closed cuts have a tag in each snapshot: cut-2026-01-05-03:00. 0: none.",
    )
    documents: Literal["relaxed", "canonical"] = Field(
        "relaxed", description="The form of Extended JSON that documents of MongoDB have in snapshots and histories."
    )
    flatten: Flattened = Field(
        default_factory=dict,
        description="Fields of documents that are columns of snapshots, by globs: {city: address.city}.",
    )

    verify: Verification = Field(
        default_factory=Verification, description="How snapshots are compared with the source."
    )

    @cached_property  # asked for each column of a run
    def routes(self) -> Routes:
        """The routes from source tables to lake tables."""
        return self._routes.with_sets if self._by_set else self._routes

    @cached_property
    def _routes(self) -> Routes:
        raise NotImplementedError

    def by_set(self) -> Self:
        """Return the settings of a source that turned out to be a TDSQL, whose messages tell their sets."""
        made = self.model_copy()
        made._by_set = True
        made.__dict__.pop("routes", None)  # a copy has what was asked for already
        return made

    def snapshot_columns(self, table: TableId) -> tuple[str, ...]:
        """Return the columns that a table's snapshot has on request: ``("_deleted_at", "_op")``."""
        how = next((how for glob, how in self.deletes.items() if self.routes.means(table, glob)), "hard")
        audit = (AUDIT[name][0] for name in AUDIT if name in self.audit_columns)
        policy = columns_for(self.schema_policy(table))
        return (*([DELETED_AT] if how == "soft" else []), *audit, *policy, *self.document_columns(table))

    def document_columns(self, table: TableId) -> tuple[str, ...]:
        """Return what is asked for of a table's documents: their form, and fields that are columns."""
        return documents_shown(self.documents, self.flatten, self.routes, table)

    def schema_policy(self, table: TableId) -> SchemaPolicy:
        """Return what a table's snapshot does when its columns change."""
        return policy_for(self.schema_changes, self.routes, table)

    @property
    def snapshot_requests(self) -> tuple[str, ...]:
        """The requests for columns and layouts of snapshots as texts: ``("soft shopdb.orders", "op")``."""
        deletes = [f"{how} {glob}" for glob, how in self.deletes.items() if "soft" in self.deletes.values()]
        layouts = [f"{glob} {'/'.join(one.partition)} {'/'.join(one.sort)}" for glob, one in self.layout.items()]
        documents = document_requests(self.documents, self.flatten)
        return (*deletes, *policy_requests(self.schema_changes), *sorted(self.audit_columns), *layouts, *documents)

    def carries_sum(self, table: TableId) -> bool:
        """Tell whether the snapshot of a table carries the sum of its rows."""
        return not any(self.routes.means(table, glob) for glob in self.verify.without_sums)

    def layout_of(self, table: TableId) -> Layout:
        """Return the layout of a table's snapshot."""
        found = next((one for glob, one in self.layout.items() if self.routes.means(table, glob)), None)
        return UNPARTITIONED if found is None else found.layout
