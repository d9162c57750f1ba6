"""The form of rejected messages: a topic may be of another format than the configuration says.

The first rejected messages of a window are looked at. Each is judged for itself, so that a window which is read in parts comes
out as if it had been read in one go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dts_assets.errors import WireFormatError
from dts_assets.model.problems import Problem, ProblemCode
from dts_assets.settings.formats import format_class, registered_formats
from dts_assets.wire.format import WireFormat
from dts_assets.wire.recognition.recogniser import recognise
from dts_assets.wire.recognition.samples import messages_of

MOST_LOOKED_AT = 64
"""The most messages of a window that are looked at."""

_MOST_BYTES = 1 << 20
_NEARLY_ALL = 0.9


@dataclass(slots=True)
class FormTracker:
    """Counts the rejected messages that were looked at, and the forms that they fit: ``{"drs-json": 64, "drs-json-c": 60}``.

    Larger messages than a mebibyte are passed over.
    """

    looked_at: int = 0
    fitting: dict[str, int] = field(default_factory=dict)

    def see(self, rejected: Iterable[bytes | None]) -> None:
        """Look at rejected messages, while there are few so far."""
        room = MOST_LOOKED_AT - self.looked_at
        if room <= 0:
            return
        sample = [data for data in rejected if data and len(data) <= _MOST_BYTES][:room]
        if not sample:
            return
        self.looked_at += len(sample)
        for one in recognise(messages_of(sample)).likenesses:
            if one.fitting:
                name = one.name if one.readable else one.title
                self.fitting[name] = self.fitting.get(name, 0) + one.fitting

    def problems(self, rejected: int, messages: int, wire: WireFormat) -> Iterator[Problem]:
        """Yield the problem of a window in which nearly all messages are rejected and look like one form.

        ``wire`` is the format that they were read as.
        """
        most = max(self.fitting.values(), default=0)
        if not most or rejected < _NEARLY_ALL * messages or 2 * most < self.looked_at:
            return
        names = sorted(name for name, fitting in self.fitting.items() if fitting == most)
        readable = [name for name in names if name in registered_formats()]
        seen = f"{most} of {self.looked_at} messages that were looked at look like {' or '.join(readable or names)}"
        if not readable:
            detail = f"{seen}, which this version does not read"
        elif any(_is_class_of(name, wire) for name in readable):
            if not wire.traits.needs_schema:
                return
            detail = f"{seen}, as the configuration says: the schema file may be another one's"
        else:
            detail = f"{seen}: see `format` in the configuration"
        yield Problem(ProblemCode.FORMAT, None, None, detail)


def _is_class_of(name: str, wire: WireFormat) -> bool:
    """Tell whether a registered name stands for the class of a format."""
    try:
        return isinstance(wire, format_class(name))
    except WireFormatError:
        return False
