"""What takes a list takes a time that grows as the list does: each entry point of planning, stages and wire is measured.

Streams are taken the whole way from messages to changelogs, and each step is measured for itself. Ledgers and other lists are
given to what planning decides. An entry point that no case reaches has its reason in ``EXEMPT``.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from time import process_time
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest

import dts_assets
from dts_assets.wire.canal_json import CanalJson
from dts_assets.wire.drs_avro import DrsAvro
from dts_assets.wire.drs_json import DrsJson
from dts_assets.wire.drs_json_c import DrsJsonC
from dts_assets.wire.dts_avro import DtsAvro
from dts_assets.wire.dts_json import DtsJson
from dts_assets.wire.dts_protobuf import DtsProtobuf
from dts_assets.wire.format import WireFormat
from tests.growth import afresh
from tests.growth.afresh import least_growth
from tests.growth.hostile_drs_records import DRS_AVRO, DRS_AVRO_NAMELESS, FLAT, NAMELESS
from tests.growth.hostile_json_records import DTS_JSON
from tests.growth.hostile_records import DTS_AVRO, SCHEMA
from tests.growth.hostile_streams import CANAL, DRS, DRS_JSON, DTS, Stream
from tests.growth.long_histories import PLANNING
from tests.growth.small_steps import STEPS
from tests.growth.whole_way import Way, as_messages
from tests.tiers import times
from tests.timing import MOST_RATIO

pytestmark = pytest.mark.more

FEW = times(80, 1_000)
"""Things of a stream; ten times as many are a few hundred kilobytes."""

FEW_OF_LISTS = times(100, 1_000)
FEW_OF_COLUMNS = times(1_000, 10_000)

_LEAST_SECONDS = 0.01
_ATTEMPTS = 4

STREAMS: list[tuple[WireFormat, str, Callable[[int], Stream]]] = [
    *((DtsProtobuf(), f"DTS: {kind}", make) for kind, make in DTS.items()),
    *((DrsJsonC(), f"DRS: {kind}", make) for kind, make in DRS.items()),
    *((DrsJson(), f"DRS JSON: {kind}", make) for kind, make in DRS_JSON.items()),
    *((CanalJson(), f"Canal: {kind}", make) for kind, make in CANAL.items()),
    *((DtsAvro(SCHEMA), f"DTS Avro: {kind}", make) for kind, make in DTS_AVRO.items()),
    *((DtsJson(), f"DTS JSON: {kind}", make) for kind, make in DTS_JSON.items()),
    *((DrsAvro(FLAT), f"DRS Avro: {kind}", make) for kind, make in DRS_AVRO.items()),
    *((DrsAvro(NAMELESS), f"DRS Avro: {kind}", make) for kind, make in DRS_AVRO_NAMELESS.items()),
]

EXEMPT = {
    "planning.executors.*": "settings of Spark and the answers of four tasks, whatever a topic holds",
    "planning.moment_frontiers.*": "one pass over the marks of windows, and over the hundred versions that a table keeps",
    "stages.rows_at_places.is_place_split": "it looks at two entries",
    "planning.copied_tables.reached_by": "one pass over the runs of a window",
    "wire.format.WireFormat.*": "an interface",
    "wire.format.ChangesFormat.*": "an interface",
    "wire.flat_json.dialect.Dialect.*": "an interface",
    "stages.sql_dialect.Dialect.*": "an interface",
    "stages.cell_decoder.EntriesSink.*": "an interface",
    "stages.changelog_decoder.ChangelogSink.*": "an interface",
    "wire.flat_json.messages.HeadForm.of": "the forms of messages, made when the module is loaded",
    "wire.dts_protobuf.protobuf_parser.reshaped": "the forms of our own protocol, made when the module is loaded",
}
"""Entry points that no case reaches, each with the reason."""


def seconds(wire: Any, messages: pa.RecordBatch) -> dict[str, float]:
    """The processor time of each step of the way."""
    found: dict[str, float] = {}
    before = process_time()

    def took(step: str) -> None:
        nonlocal before
        now = process_time()
        found[step] = found.get(step, 0.0) + now - before
        before = now

    gc.disable()
    try:
        Way(wire, took).go(messages)
    finally:
        gc.enable()
    return found


@pytest.mark.parametrize(("wire", "kind", "make"), STREAMS, ids=[kind for _, kind, _ in STREAMS])
def test_each_step_of_a_stream(wire: Any, kind: str, make: Callable[[int], Stream]) -> None:
    ratios: dict[str, float] = {}
    for _ in range(_ATTEMPTS):
        few, many = (seconds(wire, as_messages(make(count))) for count in (FEW, 10 * FEW))
        for step, taken in many.items():
            ratio = taken / max(few.get(step, 0.0), _LEAST_SECONDS)
            ratios[step] = min(ratios.get(step, ratio), ratio)
        if max(ratios.values()) <= MOST_RATIO:
            return
    assert not {step: round(ratio, 1) for step, ratio in ratios.items() if ratio > MOST_RATIO}


@pytest.mark.parametrize("kind", PLANNING)
def test_each_decision_over_a_list(kind: str) -> None:
    assert least_growth(kind, FEW_OF_LISTS) <= MOST_RATIO


@pytest.mark.parametrize("kind", STEPS)
def test_each_step_over_a_column(kind: str) -> None:
    assert least_growth(kind, FEW_OF_COLUMNS) <= MOST_RATIO


def test_cases_have_names_of_their_own_and_a_new_interpreter_measures_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not PLANNING.keys() & STEPS.keys()
    monkeypatch.setattr(afresh, "growth", lambda *_: 99.0)
    assert 0 < least_growth("rectangles", FEW_OF_LISTS) <= MOST_RATIO
    with pytest.raises(KeyError):
        least_growth("no such case", FEW_OF_LISTS)


_ROOT = Path(dts_assets.__file__).parent
_LISTS = re.compile(
    r"\b(Iterable|Iterator|Sequence|Mapping|Collection|list|dict|frozenset|set|RecordBatch|Table|\w*Array|NDArray|_?Numbers|Keys|Rows"
    r"|EntryColumns|GtidColumn|DataFrame|Image|Work|Contents|DecodedEntries|TopicHistory|CellDelivery)\b|\.\.\."
)


def entry_points() -> Iterator[str]:
    """The public functions and methods of three rooms with a parameter that may be long: ``planning.cuts.frontier``."""
    for room in ("planning", "stages", "wire"):
        for file in sorted((_ROOT / room).rglob("*.py")):
            module = ".".join(file.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield from _of_body(ast.parse(file.read_text()).body, module)


def _of_body(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for one in body:
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
            yield from _of_body(one.body, f"{prefix}.{one.name}")
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            arguments = (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)
            if any(each.annotation and _LISTS.search(ast.unparse(each.annotation)) for each in arguments):
                yield f"{prefix}.{one.name}"


def reached(run: Callable[[], object]) -> set[str]:
    """The functions of the three rooms that are called while something runs."""
    found: set[str] = set()
    root = f"{_ROOT}/"

    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in seen:
            return
        seen.add(code)
        if code.co_filename.startswith(root):
            file = Path(code.co_filename).relative_to(_ROOT).with_suffix("")
            found.add(f"{'.'.join(file.parts).removesuffix('.__init__')}.{code.co_qualname}")

    for module in [one for name, one in sys.modules.items() if name.startswith("dts_assets.")]:
        for held in vars(module).values():
            if hasattr(held, "cache_clear"):
                held.cache_clear()  # what another test has asked for before is a call here, too
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_every_entry_point_is_measured_or_exempt_for_a_reason() -> None:
    def everything() -> None:
        for wire, _, make in STREAMS:
            Way(wire).go(as_messages(make(40)))
        Way(DrsJsonC()).go(as_messages(DRS["messages"](400)))  # so many alike messages are read together
        for make_list, step in (*PLANNING.values(), *STEPS.values()):
            step(make_list(12))

    points = set(entry_points())
    assert len(points) > 150
    missing = points - reached(everything)
    exempt = {point for point in points for name in EXEMPT if fnmatchcase(point, name)}
    assert not (unmeasured := missing - exempt), "\n".join(sorted(unmeasured))
    assert not [name for name in EXEMPT if not any(fnmatchcase(point, name) for point in points)], "these are gone"
