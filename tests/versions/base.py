"""The commit whose lakes the present code has to continue."""

from __future__ import annotations

BASE = "08d8feab"
"""The commit at which the present issue began.

Whoever begins the next issue writes the commit that is then the newest one here, before the first change of the issue. It is
changed at no other time: a base in the middle of an issue would hide what the issue changed before it. A release sets it
to the commit of the release, because lakes in use were made by releases. The code of the base has to run in the present
environment. Where a change of ``requirements.lock`` ends that, the base becomes the commit of that change.

``tests/versions/test_guard.py`` edits texts of the base: where another base has other texts, the edits become others, too.
"""
