"""The answer to the question which format the messages of a sample have.

Decoding is the best proof, so a sample is decoded in every registered format that can be made. Formats which decode alike tell
their own signs (:class:`dts_assets.wire.recognition.samples.TellsSigns`). Forms that no package reads are known by signs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dts_assets.errors import WireFormatError
from dts_assets.model.formats import FormatSettings
from dts_assets.model.problems import Reason
from dts_assets.settings.formats import format_class, registered_formats, traits_of
from dts_assets.wire.format import TooLargeError
from dts_assets.wire.formats import wire_format
from dts_assets.wire.recognition.samples import Sample, Signs
from dts_assets.wire.recognition.strangers import STRANGERS

_MOST_SIGNS = 3
_NO_SETTINGS = FormatSettings()
_DECODED = frozenset({"its decoder reads them"})


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """The messages of a sample that fit one form.

    ``name`` is the name of a format, also of a planned one, and empty for a form that no format has. ``readable`` says that a
    package registers it. ``fits`` has a flag for each message that is not empty, ``signs`` counts their signs.
    """

    name: str
    title: str
    readable: bool
    fits: npt.NDArray[np.bool_]
    signs: Mapping[str, int]

    @property
    def fitting(self) -> int:
        """The number of messages that fit."""
        return int(self.fits.sum())

    @property
    def evidence(self) -> str:
        """The most frequent signs: ``mysqlType without lengths, deleted rows in old``."""
        ordered = sorted(self.signs.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(sign for sign, _ in ordered[:_MOST_SIGNS])


@dataclass(frozen=True, slots=True)
class Recognition:
    """The forms that a sample of messages looks like, the best first.

    ``messages`` counts the messages that are not empty, ``empty`` the others, ``objects`` those that are JSON objects.
    """

    messages: int
    empty: int
    objects: int
    likenesses: tuple[Likeness, ...]

    @property
    def best(self) -> tuple[Likeness, ...]:
        """The forms that most messages fit, if these are at least half of all.

        Several fit equally where nothing tells which it is. Forms that can be read go before others.
        """
        most = max((one.fitting for one in self.likenesses), default=0)
        if not most or 2 * most < self.messages:
            return ()
        found = tuple(one for one in self.likenesses if one.fitting == most)
        return tuple(one for one in found if one.readable) or found

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of registered formats that it may be: ``("drs-json", "drs-json-c")``."""
        return tuple(one.name for one in self.best if one.readable)

    def contradicts(self, name: str) -> bool:
        """Tell whether the messages look like another format than the named one, and not like it.

        Single messages that fit nothing contradict nothing.
        """
        own = next((one for one in self.likenesses if one.name == name), None)
        fits = np.zeros(self.messages, np.bool_) if own is None else own.fits
        best = self.best
        if not best:
            return bool(self.messages) and not fits.any()
        if any(one.name == name for one in best):
            return False
        if 2 * fits.sum() >= self.messages and not self.formats:
            return False  # the format reads them in a frame that is known by signs
        return all((one.fits & ~fits).sum() > (fits & ~one.fits).sum() for one in best)

    @property
    def sentence(self) -> str:
        """The answer for people: ``64 of 64 messages look like drs-json (deleted rows in old)``. No value is in it."""
        if not self.messages:
            return "there are no messages to look at"
        best = self.best
        if not best:
            return f"{self._counted(0)} looks like a format that is known here; {self._kind}"
        named = " or ".join(one.name if one.readable else one.title for one in best)
        evidence = best[0].evidence if len(best) == 1 else f"{best[0].evidence}; no message tells which"
        said = f"{self._counted(best[0].fitting)} look like {named} ({evidence})"
        return said if self.formats else f"{said}, which this version does not read"

    def _counted(self, fitting: int) -> str:
        return f"{fitting or 'none'} of {self.messages} messages"

    @property
    def _kind(self) -> str:
        if 2 * self.objects >= self.messages:
            return "they are JSON objects with other fields"
        return "they are no JSON objects"


def recognise(messages: pa.RecordBatch, settings: FormatSettings = _NO_SETTINGS) -> Recognition:
    """Return the formats that a sample of MESSAGES looks like.

    ``settings`` may hold a schema, for formats that are read with one. The sample is held in memory, message by message.
    """
    values = messages["value"].to_pylist()
    filled = messages.filter(pa.array([bool(value) for value in values], pa.bool_()))
    samples = [Sample.of(value) for value in values if value]
    names = registered_formats()
    found = [
        *(_of_format(name, filled, samples, settings) for name in names),
        *(_of_signs(one.name, one.title, samples, one.signs_in) for one in STRANGERS if one.name not in names),
    ]
    kept = sorted(
        (one for one in found if one is not None),
        key=lambda one: (-one.fitting, not one.readable, _is_open(one.name), one.name),
    )
    objects = sum(sample.fields is not None for sample in samples)
    return Recognition(len(samples), len(values) - len(samples), objects, tuple(kept))


def _is_open(name: str) -> bool:
    """Tell whether a format takes any schema with fields for its roles, so that others fit more closely."""
    return name in registered_formats() and bool(traits_of(name).roles)


def _of_format(
    name: str, messages: pa.RecordBatch, samples: Sequence[Sample], settings: FormatSettings
) -> Likeness | None:
    """Return the likeness of a registered format; None if nothing can tell it.

    A format that is read with a schema is decoded where there is one, and else told by its signs.
    """
    try:
        found = format_class(name)
    except WireFormatError:
        return None
    signs_in = getattr(found, "signs_in", None) or next((one.signs_in for one in STRANGERS if one.name == name), None)
    needs_schema = found.traits.needs_schema
    if signs_in is not None and not (needs_schema and settings.schema):
        return _of_signs(name, name, samples, signs_in)
    if needs_schema and not settings.schema:
        return None
    try:
        fits = _decoded(wire_format(name, settings), messages)
    except (WireFormatError, TooLargeError):
        return None
    return Likeness(name, name, True, fits, {sign: int(fits.sum()) for sign in _DECODED})


def _of_signs(name: str, title: str, samples: Sequence[Sample], signs_in: Any) -> Likeness:
    each: list[Signs | None] = [signs_in(sample) for sample in samples]
    fits = np.array([signs is not None for signs in each], np.bool_)
    signs = Counter(sign for one in each if one is not None for sign in one)
    return Likeness(name, title, name in registered_formats(), fits, signs)


def _decoded(wire: Any, messages: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which messages the decoder of a format accepts.

    These are whole ones with all entries, and pieces of larger sets. Messages of a source that is not supported are of the
    format, too.
    """
    if not len(messages):
        return np.zeros(0, np.bool_)
    fragments = wire.fragments(messages)
    fits = np.asarray(fragments["reason"].is_null()).copy()
    whole = np.flatnonzero(fits & np.equal(fragments["total"].fill_null(0), 1))
    if len(whole):
        for rejected in wire.entries(fragments["data"].take(pa.array(whole))).rejected:
            fits[whole[rejected.index]] &= rejected.reason is Reason.UNSUPPORTED_SOURCE
    return fits
