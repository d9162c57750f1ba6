"""The wire formats that installed packages register, by the names that ``format`` in ``pipeline.yaml`` takes.

A package registers a format as an entry point of the group ``dts_assets.formats``; this room knows no format by itself. Classes
of formats load no engine before their first call, so that traits cost nothing where the configuration is only read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dts_assets.errors import WireFormatError
from dts_assets.model.formats import CLOCK_ZONE, FormatTraits
from dts_assets.settings.values import VALUE, instead, mistake

GROUP = "dts_assets.formats"


def registered_formats() -> tuple[str, ...]:
    """Return the names of all registered formats, sorted."""
    return tuple(sorted(_registered(tuple(sys.path))))


def format_class(name: str) -> Any:
    """Return the class that is registered under a name.

    Raises:
        WireFormatError: no package registers the name, or its class cannot be loaded.
    """
    found = _registered(tuple(sys.path)).get(name)
    if found is None:
        ready = ", ".join(registered_formats())
        raise WireFormatError(name, f"there is no format of that name; this version decodes {ready}")
    try:
        return found.load()
    except (ImportError, AttributeError):
        package = "a package" if found.dist is None else f"the package {found.dist.name}"
        raise WireFormatError(name, f"{package} registers it as {found.value}, which cannot be loaded") from None


def traits_of(name: str) -> FormatTraits:
    """Return the traits of a registered format.

    Raises:
        WireFormatError: no package registers the name, or its class cannot be loaded.
    """
    traits: FormatTraits = format_class(name).traits
    return traits


def usual_zone(name: str | None) -> str:
    """Return the zone of clocks that name none in a format, where the configuration names none."""
    return CLOCK_ZONE if name is None else traits_of(name).clock_zone


def format_name(name: str) -> str:
    """Return a name of ``format`` that can be used.

    Raises:
        mistake: the name is unknown, or the class behind it cannot be loaded.
    """
    if name not in registered_formats():
        raise mistake(f"{VALUE} is none of its values", instead(name, registered_formats()))
    try:
        format_class(name)
    except WireFormatError as error:
        raise mistake(error.what, "install that package again") from None
    return name


@lru_cache(maxsize=4)
def _registered(path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points on a module search path, by name.

    They are remembered, because reading the metadata of all packages takes a while.
    """
    return {one.name: one for one in entry_points(group=GROUP)}
