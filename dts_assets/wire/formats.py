"""The wire formats as values, made by name from the settings of a subscription."""

from __future__ import annotations

from dts_assets.model.formats import FormatSettings
from dts_assets.settings.formats import format_class
from dts_assets.wire.format import WireFormat

_NO_SETTINGS = FormatSettings()


def wire_format(name: str, settings: FormatSettings = _NO_SETTINGS) -> WireFormat:
    """Return the format that is registered under a name, made from a subscription's settings.

    Raises:
        WireFormatError: no package registers the name, its class cannot be loaded, or it cannot be made from the settings.
    """
    made: WireFormat = format_class(name).of(settings)
    return made
