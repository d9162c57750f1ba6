"""Settings of documents: their form, and fields of them that are columns of snapshots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from dts_assets.model.added_columns import CANONICAL, flattened
from dts_assets.model.routes import Routes
from dts_assets.model.tables import TableId
from dts_assets.settings.values import Glob, mistake

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def _checked(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Return columns with their paths.

    Raises:
        mistake: A column has a name that a snapshot has already, or a path has an empty part.
    """
    for name, path in fields.items():
        if not _NAME.fullmatch(name) or name == "document":
            raise mistake(f"{name!r} cannot be a column beside _id and document", "take letters, digits and _: city")
        if not all(path.split(".")):
            raise mistake(f"{path!r} is no path of a field", "write the fields with dots between them: address.city")
    return fields


Flattened: TypeAlias = dict[Glob, Annotated[dict[str, str], AfterValidator(_checked)]]
"""Fields of documents by globs of collections, of which the first that matches counts: ``{"shop.orders": {"city": "a.b"}}``."""


def documents_shown(
    form: str, fields: Mapping[str, Mapping[str, str]], routes: Routes, table: TableId
) -> tuple[str, ...]:
    """Return what a snapshot shows of documents, beside them in relaxed form: ``("city=address.city",)``."""
    mine = next((some for glob, some in fields.items() if routes.means(table, glob)), {})
    return (*([CANONICAL] if form == "canonical" else []), *(flattened(name, path) for name, path in mine.items()))


def document_requests(form: str, fields: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return what snapshots of all collections show of documents, as texts."""
    some = (f"{glob} {flattened(name, path)}" for glob, paths in fields.items() for name, path in paths.items())
    return (*([CANONICAL] if form == "canonical" else []), *some)
