"""``pipeline.yaml`` as frozen values: ``load_settings()`` gives them, or every mistake of the file at once."""

from dts_assets.settings.load import CONFIG_VARIABLE, UI_VARIABLE, config_file, json_schema, load_settings, ui_address
from dts_assets.settings.models import (
    Capture,
    Catalog,
    Kafka,
    Lake,
    Settings,
    Source,
    Spark,
    Sql,
    Subscription,
    Tables,
    WindowSettings,
)
from dts_assets.settings.values import Hidden

__all__ = [
    "CONFIG_VARIABLE",
    "UI_VARIABLE",
    "Capture",
    "Catalog",
    "Hidden",
    "Kafka",
    "Lake",
    "Settings",
    "Source",
    "Spark",
    "Sql",
    "Subscription",
    "Tables",
    "WindowSettings",
    "config_file",
    "json_schema",
    "load_settings",
    "ui_address",
]
