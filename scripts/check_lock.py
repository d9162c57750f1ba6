"""The check that ``requirements.lock`` agrees with ``pyproject.toml``, without a network.

Every requirement and every extra has a pinned version that satisfies it, every pinned version has hashes, the file names no
index, and the installed versions are those of the lock. Newer versions are not looked for: ``make lock`` finds them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOUSE = Path(__file__).resolve().parent.parent
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)(?: *; *(?P<marker>[^\\]+))?", re.M)


def pins(lock: str) -> dict[str, list[tuple[str, str | None, int]]]:
    """Return the pinned versions by package, each with its marker and the number of its hashes."""
    found: dict[str, list[tuple[str, str | None, int]]] = {}
    starts = list(_PIN.finditer(lock))
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        block = lock[start.end() : following.start() if following else len(lock)]
        marker = start.group("marker")
        pin = (start.group("version"), marker.strip() if marker else None, block.count("--hash=sha256:"))
        found.setdefault(canonicalize_name(start.group("name")), []).append(pin)
    return found


def requirements(project: dict[str, object]) -> Iterator[Requirement]:
    """Return the requirements of pyproject.toml, extras included."""
    own = project["project"]
    assert isinstance(own, dict)
    for text in (*own["dependencies"], *(text for extra in own["optional-dependencies"].values() for text in extra)):
        yield Requirement(text)
    build = project["build-system"]
    assert isinstance(build, dict)
    yield from (Requirement(text) for text in build["requires"])  # setup builds without isolation


def disagreements(lock: str, project: dict[str, object], *, installed: bool = True) -> list[str]:
    """Yield one sentence per disagreement."""
    pinned = pins(lock)
    wrong = []
    for requirement in requirements(project):
        versions = pinned.get(canonicalize_name(requirement.name), [])
        if not versions:
            wrong.append(f"{requirement.name} is required and not locked")
        wrong += [
            f"{requirement.name} is locked at {version}, required is {requirement.specifier}"
            for version, _, _ in versions
            if not requirement.specifier.contains(version, prereleases=True)
        ]
    wrong += [f"{name} {version} has no hash" for name, all_of in pinned.items() for version, _, n in all_of if not n]
    if re.search(r"^\s*--(?!hash)|https?://", lock, re.M):
        wrong.append("the lock has options or addresses; it may hold names, versions and hashes only")
    return wrong + (_not_installed(pinned) if installed else [])


def _not_installed(pinned: dict[str, list[tuple[str, str | None, int]]]) -> list[str]:
    wrong = []
    for name, versions in pinned.items():
        here = [version for version, marker, _ in versions if marker is None or Marker(marker).evaluate()]
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = None
        if here and found not in here:
            wrong.append(f"{name} is locked at {here[0]}, installed is {found}; run `make setup`")
    return wrong


def main() -> int:
    """Run the command; return 1 if there is a disagreement."""
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text())
    wrong = disagreements((HOUSE / "requirements.lock").read_text(), project)
    for sentence in wrong:
        sys.stderr.write(f"requirements.lock: {sentence}\n")
    if wrong:
        sys.stderr.write(
            "requirements.lock does not agree with pyproject.toml; run `make lock` and commit the result.\n"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
