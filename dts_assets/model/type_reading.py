"""The lock under which msgspec reads our types for the first time.

msgspec 0.22 keeps what it finds out about a dataclass at the class before it has found out all. A second thread that meets the
class meanwhile takes the half of it, and the process dies by a segmentation fault: two sensors of a code server that had just
started did so. So each module that reads values of our types has msgspec read the types when it is imported, and all modules do
that under this lock: their types have parts in common.
"""

from __future__ import annotations

from threading import Lock

READING_TYPES = Lock()
"""Held while msgspec reads types: by modules, at their import."""
