"""A branch of a lake: one layer stands elsewhere, and everything else is the lake's.

Who makes tables of that layer reads the lake and changes nothing in it. A table of the branch may begin as a version of the
lake's own table: then it has that version's files, and new files lie in the branch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot, Summary

from dts_assets.store.catalog import LakeLocation, open_catalog
from dts_assets.store.catalog_properties import of_file_stores
from dts_assets.store.dropped_tables import Dropped
from dts_assets.store.durable import bring_to_disk
from dts_assets.store.lake import Lake, TableState
from dts_assets.store.other_tables import OtherTables
from dts_assets.store.versions import refuse_set_back


@dataclass(slots=True)
class BranchedLake(Lake):
    """A lake of which ``layer`` stands in the local folder ``branch``."""

    layer: str = ""
    branch: Path = field(default_factory=Path)
    _own: Catalog | None = field(default=None, init=False, repr=False, compare=False)

    def catalog_of(self, path: Sequence[str]) -> Catalog:
        """Return the catalog that knows a table: the branch's, if it is of the branch's layer."""
        if len(path) < 2 or path[1] != self.layer:
            return self.catalog
        if self._own is None:
            stores = of_file_stores(self.location.properties)
            self._own = open_catalog(LakeLocation(str(self.branch), {**stores, "type": "sqlite"}))
        return self._own

    def drop(self, path: Sequence[str], others: OtherTables | None = None) -> Dropped | None:
        """Forget a table of the branch; None without one. Its files stay, since the lake's are among them."""
        assert path[1] == self.layer, "the lake's own tables are only read"
        try:
            self.catalog_of(path).drop_table(self.identifier(path))
        except NoSuchTableError:
            return None
        return Dropped()

    def begin(self, path: Sequence[str], version: TableState) -> Table:
        """Return a new table of the branch, with the rows of a version of the lake's own table.

        Its version has the properties of ``version``. No file is copied.
        """
        theirs = self.catalog.load_table(self.identifier(path))
        snapshot = theirs.snapshot_by_id(version.snapshot_id)
        assert snapshot is not None, "a version that is still there"
        assert snapshot.summary is not None, "a version of ours"
        summary = Summary(snapshot.summary.operation, **version.properties)
        snapshot = snapshot.model_copy(update={"summary": summary})
        place = self.branch / "tables" / uuid.uuid4().hex
        known = theirs.metadata
        metadata = known.model_copy(
            update={
                "location": f"file://{place.absolute()}",
                "table_uuid": uuid.uuid4(),
                "current_schema_id": known.current_schema_id if snapshot.schema_id is None else snapshot.schema_id,
                "current_snapshot_id": version.snapshot_id,
                "snapshots": [snapshot],
                "snapshot_log": [],
                "metadata_log": [],
                "statistics": [],
                "partition_statistics": [],
                "refs": {MAIN_BRANCH: known.refs[MAIN_BRANCH].model_copy(update={"snapshot_id": version.snapshot_id})},
                "properties": _without_places(known.properties),
            }
        )
        catalog, file = self.catalog_of(path), f"{metadata.location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, theirs.io.new_output(file))
        bring_to_disk([file])
        identifier = self.identifier(path)
        catalog.create_namespace_if_not_exists(identifier[:-1])
        return catalog.register_table(identifier, file)


def versions_of(lake: Lake, path: Sequence[str]) -> Iterator[TableState]:
    """Yield the versions of a lake's own table that are still there, the newest first."""
    try:
        table = refuse_set_back(lake.catalog.load_table(lake.identifier(path)))
    except NoSuchTableError:
        return
    for one in sorted(table.snapshots(), key=_number, reverse=True):
        yield TableState(one.snapshot_id, dict(one.summary.additional_properties) if one.summary else {})


def _number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _without_places(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table without those that say where its files lie."""
    return {name: value for name, value in properties.items() if name not in ("write.data.path", "write.metadata.path")}
