"""The tagged moments that go: old ones, and the oldest while tags hold too many bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TaggedMoment:
    """A moment that tags of tables name.

    ``made_at`` says when its versions were made, ``files`` the files that are held for tags, with their bytes.
    """

    name: str
    made_at: datetime
    files: Mapping[str, int] = field(default_factory=dict)


def moments_that_go(
    moments: Iterable[TaggedMoment], *, before: datetime | None = None, most: int | None = None
) -> tuple[str, ...]:
    """Return the names of the moments that go, the oldest first.

    They were made before ``before``, or the moments together hold more than ``most`` bytes without them. A file that several
    moments hold is counted once. None stands for no bound.
    """
    ordered = sorted(moments, key=lambda one: (one.made_at, one.name))
    holders = Counter(place for one in ordered for place in one.files)
    left = sum({place: size for one in ordered for place, size in one.files.items()}.values())
    going = []
    for one in ordered:
        if not ((before is not None and one.made_at < before) or (most is not None and left > most)):
            break
        going.append(one.name)
        for place, size in one.files.items():
            holders[place] -= 1
            left -= 0 if holders[place] else size
    return tuple(going)
