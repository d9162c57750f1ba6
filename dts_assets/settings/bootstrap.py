"""The place that tables are copied from before, or beside, the stream."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator
from pydantic import model_validator as check_whole

from dts_assets.settings.databases import Jdbc
from dts_assets.settings.places import AbsolutePath, Part
from dts_assets.settings.values import Glob, mistake


class CopySource(Part):
    """The source of copied rows: exactly one of a database, files and an Iceberg table."""

    jdbc: Jdbc | None = Field(None, description="A running MySQL or MariaDB, read while writes go on.")
    parquet: AbsolutePath | None = Field(None, description="A folder with db.table/*.parquet or db.table.parquet.")
    csv: AbsolutePath | None = Field(
        None, description="A folder with db.table/*.csv or db.table.csv, each with a header; \\N is NULL."
    )
    table: str | None = Field(
        None, min_length=1, description="An Iceberg table of the lake's catalog: namespace.table."
    )
    mysqldump: AbsolutePath | None = Field(None, description="A file of mysqldump or mariadb-dump.")

    @check_whole(mode="after")
    def _exactly_one(self) -> CopySource:
        named = [name for name in ("jdbc", "parquet", "csv", "table", "mysqldump") if getattr(self, name) is not None]
        if len(named) != 1:
            said = "nothing is said" if not named else f"{' and '.join(named)} are there"
            raise mistake(f"rows are copied from one place, and {said}", "write jdbc: with url and user, or a file")
        return self


class Bootstrap(Part):
    """The copy that tables begin with, or begin anew with."""

    source: CopySource = Field(alias="from", description="Where the rows come from.")
    tables: tuple[Glob, ...] = Field(("*",), min_length=1, description="The tables that are copied, by globs.")
    at: str | None = Field(
        None,
        min_length=1,
        description="The position that files are of: binlog.000004:1187, a GTID, or an id; a dump tells its own.",
    )
    connections: int = Field(2, ge=1, le=64, description="How many connections read at once.")
    chunk_rows: int = Field(500_000, ge=1_000, description="About how many rows are read by one statement.")
    rows_per_second: int | None = Field(None, ge=1, description="The most rows read in a second, over all connections.")

    @field_validator("at")
    @classmethod
    def _files_have_a_position(cls, at: str | None, info: ValidationInfo) -> str | None:
        source: CopySource | None = info.data.get("source")
        if source is None:
            return at
        if source.jdbc is not None and at is not None:
            raise mistake("a database tells its own position", "remove the key")
        if at is None and source.jdbc is None and source.mysqldump is None:
            raise mistake("nothing tells which position the files are of", "write at: and the position or the GTID")
        return at
