"""Where the made-up format lies: a folder that stands for ``site-packages`` while it is on the module search path."""

from __future__ import annotations

from pathlib import Path

SITE_PACKAGES = Path(__file__).parent
MODULE = SITE_PACKAGES / "toy_lines.py"
NAME = "toy-lines"
