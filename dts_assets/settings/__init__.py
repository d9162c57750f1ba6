"""``pipeline.yaml`` as frozen values: ``load_settings()`` gives them, or every mistake of the file at once."""

from dts_assets.settings.load import config_file, json_schema, load_settings, ui_address
from dts_assets.settings.models import Settings, Subscription, WindowSettings

__all__ = ["Settings", "Subscription", "WindowSettings", "config_file", "json_schema", "load_settings", "ui_address"]
