"""The place that tables are copied from before, or beside, the stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic import model_validator as check_whole
from pydantic.json_schema import SkipJsonSchema

from dts_assets.settings.places import AbsolutePath, Part
from dts_assets.settings.values import VALUE, Glob, Hidden, is_port, mistake

_URL = re.compile(
    r"jdbc:(?:mariadb|mysql)://(?P<host>\[[^\]]+\]|[^:/?]+)(?::(?P<port>[^/?]*))?(?:/(?P<database>[^?]*))?(?:\?(?P<rest>.*))?"
)


def _address(url: str) -> str:
    found = _URL.fullmatch(url)
    if found is None:
        raise mistake(f"{VALUE} is no address of a MySQL or a MariaDB", "write jdbc:mariadb://host:3306/")
    if found.group("port") is not None and not is_port(found.group("port")):
        raise mistake("the port is none", "write jdbc:mariadb://host:3306/ with a port from 1 to 65535")
    names = {name.lower() for name, _ in parse_qsl(found.group("rest") or "", keep_blank_values=True)}
    if names & {"user", "password"}:
        raise mistake("the address has a user or a password", "write user: and password: beside url:")
    return url


def _with_password(schema: dict[str, Any]) -> None:
    text = "The user's password, best as a variable of the environment: ${DB_PASSWORD}."
    schema["properties"]["password"] = {"type": "string", "description": text}


class Jdbc(Part):
    """A database, and the user that reads it. ``repr`` shows no password."""

    url: Annotated[str, AfterValidator(_address)] = Field(description="The address: jdbc:mariadb://host:3306/.")
    user: str = Field(min_length=1, description="A user with SELECT, and REPLICATION CLIENT or BINLOG MONITOR.")
    secret: SkipJsonSchema[Hidden] = Field(default_factory=Hidden, alias="<secret>", repr=False, exclude=True)

    model_config = ConfigDict(json_schema_extra=_with_password)

    @check_whole(mode="before")
    @classmethod
    def _hide(cls, values: object) -> object:
        if not isinstance(values, Mapping) or "password" not in values:
            return values
        rest = {key: value for key, value in values.items() if key != "password"}
        return {**rest, "<secret>": {"password": values["password"]}}

    @property
    def password(self) -> str:
        """The user's password."""
        return self.secret.get("password", "")

    @property
    def host(self) -> str:
        """The name or address of the server: ``db.example.org``."""
        return self._part("host").strip("[]")

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self._part("port") or 3306)

    @property
    def options(self) -> str:
        """The options behind the address: ``sslMode=verify-full``."""
        return self._part("rest")

    def _part(self, name: str) -> str:
        found = _URL.fullmatch(self.url)
        return "" if found is None else found.group(name) or ""


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
