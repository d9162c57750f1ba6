"""The places of a configuration: the lake, and the Spark that computes.

Paths are absolute in these values, whatever folder the file stands in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic import model_validator as check_whole
from pydantic.json_schema import SkipJsonSchema

from dts_assets.settings.values import Hidden, duration_of, is_port, mistake

_TLS_PROPERTY = re.compile(r"ssl|tls|certificate|\bcerts?\b|ca-?bundle|trust-?store|verify", re.I)
"""Names that speak of TLS. Iceberg's engines have none: pyiceberg's ``ssl`` is no text, and Spark would not read it."""

_SECRET_OPTION = re.compile(
    r"-D(?P<name>[^\s=]*(?i:secret|password|passwd|token(?!i)|credential|access[._-]?key)[^\s=]*)="
)
"""An option of Java whose name speaks of a secret."""

_REMOTE_PORT = re.compile(r"sc://(?:\[[^\]]*\]|[^:/]*):([^/]*)")


class Part(BaseModel):
    """A part of the file: frozen, without keys that nobody knows, and without values in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder that relative paths start from: the file's, or the current one without a file."""
    folder = (info.context or {}).get("folder")
    return Path(folder) if folder is not None else Path.cwd()


def _absolute(path: Path, info: ValidationInfo) -> Path:
    return (folder_of(info) / path.expanduser()).resolve()


def _absolute_or_uri(place: str, info: ValidationInfo) -> str:
    if not place.strip():
        raise mistake("the warehouse is empty", "name a folder, or a place such as s3://bucket/lake")
    return place.rstrip("/") if "://" in place else str(_absolute(Path(place), info))


def default_duration(text: str, description: str) -> Any:
    """Return the field of a duration with a default: ``10m``."""
    # The schema would show the default as ISO 8601, which the file does not understand.
    return Field(duration_of(text), description=description, json_schema_extra={"default": text})


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]


class Catalog(Part):
    """The Iceberg catalog named ``lake``. All keys but ``type`` are passed to Iceberg as they are."""

    type: Literal["sqlite", "rest", "hive", "glue"] = Field(
        "sqlite",
        description="sqlite: a file, catalog.db in the warehouse or the one that uri names; the others are servers.",
    )
    properties: SkipJsonSchema[Hidden] = Field(default_factory=Hidden)

    model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": ["string", "number", "boolean"]}})

    @check_whole(mode="before")
    @classmethod
    def _gathered(cls, values: object) -> object:
        if not isinstance(values, Mapping):
            return values
        own = {key: value for key, value in values.items() if key == "type"}
        return {**own, "properties": {key: value for key, value in values.items() if key != "type"}}

    @field_validator("properties")
    @classmethod
    def _with_an_address(cls, properties: Hidden, info: ValidationInfo) -> Hidden:
        kind = info.data.get("type")
        for name in properties:
            if _TLS_PROPERTY.search(name) and not name.lower().startswith("header."):
                raise mistake(
                    "neither engine has such a setting of TLS, and the line would be as it is without",
                    "TLS is on where uri and s3.endpoint begin with https://; name an authority of your own to Python by the "
                    "variables SSL_CERT_FILE and REQUESTS_CA_BUNDLE, and to Java by its trust store",
                    at=(name,),
                )
        if kind in ("rest", "hive") and "uri" not in properties:
            raise mistake(f"a {kind} catalog has an address, and uri is missing", "write uri: and the address")
        if kind == "sqlite" and "uri" in properties:
            file = _absolute(Path(properties["uri"].removeprefix("sqlite:///")), info)
            return Hidden({**properties, "uri": str(file)})
        return properties


class Lake(Part):
    """The place of the tables."""

    warehouse: Annotated[str, AfterValidator(_absolute_or_uri)] = Field(
        description="The folder of all tables, or a place such as s3://bucket/lake; with a SQLite catalog that needs its uri."
    )
    catalog: Catalog = Field(default_factory=Catalog, description="The Iceberg catalog; a SQLite file if left out.")

    @field_validator("catalog")
    @classmethod
    def _file_catalog_needs_a_folder(cls, catalog: Catalog, info: ValidationInfo) -> Catalog:
        if catalog.type == "sqlite" and "uri" not in catalog.properties and "://" in info.data.get("warehouse", ""):
            raise mistake(
                "a sqlite catalog is a file in the warehouse, and this warehouse is no folder",
                "name a catalog that is a server, or a local warehouse, or the catalog's own file under uri",
            )
        return catalog

    @property
    def catalog_file(self) -> Path | None:
        """The file of a SQLite catalog; None for catalogs that are servers."""
        if self.catalog.type != "sqlite":
            return None
        return Path(self.catalog.properties.get("uri", f"{self.warehouse}/catalog.db"))

    @property
    def key(self) -> str:
        """A short digest of the lake's place, the same for every configuration that names it: ``5d41402abc4b``."""
        catalog = self.catalog
        place = [catalog.type, str(self.catalog_file or catalog.properties.get("uri", "")), self.warehouse]
        place += filter(None, [catalog.properties.get("warehouse")])  # its name at a catalog that is a server
        return hashlib.sha256("\0".join(place).encode()).hexdigest()[:12]


class Spark(Part):
    """The Spark that computes."""

    master: str | None = Field(
        None, min_length=1, description="local[n] for this machine, or a cluster's URL. local[2] if nothing is said."
    )
    remote: str | None = Field(
        None,
        pattern=r"^sc://.+",
        repr=False,  # may end in ;token=..., so no dump has it either
        exclude=True,
        description="A Spark Connect server, sc://host:15002, instead of a master.",
    )
    conf: Hidden = Field(default_factory=Hidden, description="Spark settings, passed on as they are.")

    @property
    def address(self) -> str:
        """The address of the Spark that computes, a server's or a master's. It may end in a token."""
        return self.remote or self.master or "local[2]"

    @check_whole(mode="before")
    @classmethod
    def _local_unless_told(cls, values: object) -> object:
        if isinstance(values, Mapping) and values.get("master") is None and values.get("remote") is None:
            return {**values, "master": "local[2]"}
        return values

    @field_validator("conf")
    @classmethod
    def _no_secret_in_a_command_line(cls, conf: Hidden) -> Hidden:
        for name, value in conf.items():
            if name.endswith("JavaOptions") and (found := _SECRET_OPTION.search(value)):
                raise mistake(
                    f"the option {found['name']} would stand in a command line, where every user of the machine reads it",
                    "write the option into a file that only you may read, and @/path/of/the/file here",
                    at=(name,),
                )
        return conf

    @field_validator("remote")
    @classmethod
    def _one_of_two(cls, remote: str | None, info: ValidationInfo) -> str | None:
        if remote is not None and info.data.get("master") is not None:
            raise mistake("there is a master beside the remote", "keep one of master and remote")
        if remote is not None and (found := _REMOTE_PORT.match(remote)) and not is_port(found.group(1)):
            raise mistake("the remote's port is none", "write sc://host:15002 with a port from 1 to 65535")
        return remote
