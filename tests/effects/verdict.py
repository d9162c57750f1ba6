"""Whether a lake is as if nothing had ever failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dts_assets.flows.find_work import find_work
from dts_assets.flows.known_tables import known_tables
from tests.flows.harness import SYSTEM, Harness

if TYPE_CHECKING:
    from tests.effects.effects import Effects
    from tests.effects.world import World

OF_A_RUN = {"generation", "inputs", "refreshes", "ends", "made_by", "chain", "run", "first_position"}
"""Columns of the ledger that name runs or tell in how many readings a window came."""


def content(harness: Harness) -> dict[str, list[str]]:
    """Every row of every table but for the names of runs, and every entry of the registry."""
    paths: list[tuple[str, ...]] = [(name,) for name in SYSTEM]
    paths += [
        (layer.name, *table.path)
        for table in known_tables(harness.pipeline)
        for layer in harness.pipeline.layers
        if layer.takes(harness.pipeline.settings, table)
    ]
    found = {
        ".".join(path): sorted(
            repr({key: row[key] for key in sorted(row) if key not in OF_A_RUN}) for row in harness.rows(*path)
        )
        for path in paths
    }
    registry = harness.pipeline.settings.registry_path
    lines = registry.read_text().splitlines() if registry.exists() else []
    found["registry"] = [line for line in lines if not line.startswith('  "lake": ')]
    return found


def verdict(world: World, effects: Effects) -> str:
    """Return what is wrong with the lake; empty if nothing is."""
    harness = world.opened(effects)
    work = find_work(harness.pipeline)
    if not work.nothing:
        return f"there is work left: {work}"
    if lost := _lost_files(harness, world.ground.sizes()):
        return f"files are lost: {lost}"
    found = content(harness)
    for name in sorted(found.keys() | world.reference.keys()):
        mine, expected = found.get(name, []), world.reference.get(name, [])
        if mine != expected:
            more, fewer = [row for row in mine if row not in expected], [row for row in expected if row not in mine]
            return f"{name} has {len(mine)} rows, not {len(expected)}: {more[:2]} instead of {fewer[:2]}"
    return ""


def _lost_files(harness: Harness, sizes: Mapping[str, int] | None) -> list[str]:
    """Return the files of any version of any table that are not there or shorter than they were written.

    ``sizes`` are those of all files that are there; None: they are on a disk.
    """
    catalog, lost = harness.pipeline.lake.catalog, list[str]()
    namespaces: list[tuple[str, ...]] = [(harness.pipeline.name,)]
    while namespaces:
        namespace = namespaces.pop()
        namespaces += catalog.list_namespaces(namespace)
        for identifier in catalog.list_tables(namespace):
            table = catalog.load_table(identifier)
            manifests = {
                one.manifest_path: one for each in table.metadata.snapshots for one in each.manifests(table.io)
            }
            for manifest in manifests.values():
                for entry in manifest.fetch_manifest_entry(table.io):
                    path = entry.data_file.file_path
                    if (_size(path) if sizes is None else sizes.get(path)) != entry.data_file.file_size_in_bytes:
                        lost.append(path)
    return lost


def _size(path: str) -> int | None:
    file = Path(urlsplit(path).path)  # Spark writes file:/tmp, pyiceberg file:///tmp
    return file.stat().st_size if file.exists() else None
