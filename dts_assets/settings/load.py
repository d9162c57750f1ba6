"""The loading of a file: settings, or every mistake in it at once.

The file is the one that was asked for, else the one that ``DTS_ASSETS_CONFIG`` names, else ``pipeline.yaml`` in the current
folder, else ``pipeline.yaml`` in the folder that the package lies in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dts_assets.errors import ConfigErrors, ConfigMistake
from dts_assets.errors.machine import UnwritableHomeError
from dts_assets.settings.document import Document, Place, document_of, read_document
from dts_assets.settings.mistakes import mistake_of
from dts_assets.settings.models import Settings
from dts_assets.settings.rules import written_keys
from dts_assets.settings.unsupported import unsupported_in

DEFAULT_NAME = "pipeline.yaml"


def load_settings(path: Path | None = None, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a file; ``environment`` stands in for the process's own.

    Raises:
        ConfigErrors: the file has mistakes; it holds every one.
    """
    file = config_file(path)
    return _settings_of(read_document(file, os.environ if environment is None else environment), file.parent)


def settings_of_text(text: str, *, name: str, folder: Path) -> Settings:
    """Return the settings of a text that is to be a file in ``folder``.

    Messages call it by ``name``.

    Raises:
        ConfigErrors: the text has mistakes; it holds every one.
    """
    return _settings_of(document_of(text, name, os.environ), folder)


def _settings_of(document: Document, folder: Path) -> Settings:
    """Return the settings of a document whose relative paths begin at ``folder``.

    Raises:
        ConfigErrors: it has mistakes.
    """
    found = [
        *document.mistakes,
        *((place, document.mistake(place, message, fix)) for place, message, fix in unsupported_in(document.values)),
        *((place, document.mistake(place, message, fix)) for place, message, fix in written_keys(document)),
    ]
    settings = None
    try:
        settings = Settings.model_validate(document.values, context={"folder": folder})
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        found += [pair for pair in (mistake_of(one, document) for one in details) if pair[0] not in document.spoiled]
    if found or settings is None:
        each_once = dict.fromkeys(mistake for _, mistake in found)
        raise ConfigErrors(tuple(sorted(each_once, key=lambda mistake: (mistake.line or 0, mistake.path))))
    return settings


def mistake_at(file: Path, place: Place, message: str, fix: str) -> ConfigMistake:
    """Return a mistake that was found behind the checks of a file, with the line of its place.

    Raises:
        ConfigErrors: the file cannot be read any more.
    """
    return read_document(file, os.environ).mistake(place, message, fix)


def config_file(path: Path | None = None) -> Path:
    """Return the absolute path of the configuration file; it need not exist."""
    named = path or os.environ.get("DTS_ASSETS_CONFIG")
    if named:
        return Path(named).expanduser().resolve()
    here = Path.cwd() / DEFAULT_NAME
    beside_the_package = Path(__file__).resolve().parents[2] / DEFAULT_NAME
    return beside_the_package if beside_the_package.exists() and not here.exists() else here.resolve()


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the configuration file, for editors."""
    schema = Settings.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dts-assets pipeline.yaml"}


def ui_address() -> str | None:
    """Return the address of Dagster's UI, ``http://localhost:3000``, if ``DTS_ASSETS_UI`` names it."""
    return os.environ.get("DTS_ASSETS_UI", "").strip().rstrip("/") or None


def dagster_home(config: Path) -> Path:
    """Return the folder where Dagster keeps its runs; it need not exist.

    It is ``DAGSTER_HOME`` if that is set, else the folder ``dagster_home`` beside the configuration.
    """
    named = os.environ.get("DAGSTER_HOME")
    return Path(named).resolve() if named else config.parent / "dagster_home"


def enter_dagster_home(config: Path) -> Path:
    """Make the folder where Dagster keeps its runs, tell Dagster about it, and return it.

    The folder's dagster.yaml takes the place of Dagster's own files from there.

    Raises:
        UnwritableHomeError: The folder cannot be made.
    """
    home = dagster_home(config)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableHomeError(str(home), (error.strerror or "it cannot be made").lower()) from None
    os.environ["DAGSTER_HOME"] = str(home)
    return home
