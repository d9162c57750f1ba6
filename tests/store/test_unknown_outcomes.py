"""A catalog that gives no answer to a commit: nothing that may be in use is removed, nothing is done twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServiceUnavailableError
from requests.exceptions import ConnectionError as CutConnection
from requests.exceptions import ReadTimeout

from dts_assets.errors import LakeChangeError, StaleGenerationError
from dts_assets.model.ledger_rows import Lease
from dts_assets.model.lineages import Lineage
from dts_assets.model.positions import SourcePosition
from dts_assets.model.windows import Window
from dts_assets.store import commit, contention, expiry
from dts_assets.store.commit import files_in, replace
from dts_assets.store.expiry import KEEP_FOR, expire_snapshots
from dts_assets.store.iceberg_tables import ensure_table, evolve, remember
from dts_assets.store.ledger import Ledger
from dts_assets.store.locks import table_lock
from dts_assets.store.schemas import layout
from dts_assets.store.types import iceberg_schema
from tests.ledger_rows import cut_row
from tests.store.conftest import COLUMNS

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from tests.store.conftest import Cells

START = datetime(2026, 1, 1, tzinfo=UTC)
UNHEARD = CommitStateUnknownException("504")
OUTCOMES = ("never", "before", "late")
"""Nothing was done; it was done before the answer was lost; it is done while the next request is on its way."""


@dataclass
class Deaf:
    """Loses the answers of a catalog's commits, one after the other as ``outcomes`` says, and passes on what comes after."""

    outcomes: list[str]
    error: BaseException = UNHEARD
    calls: int = 0
    late: list[Callable[[], object]] = field(default_factory=list)

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def commit_table(*asked: Any) -> Any:
            self.calls += 1
            while self.late:
                self.arrive()
            if not self.outcomes:
                return real(*asked)
            outcome = self.outcomes.pop(0)
            if outcome == "late":
                self.late.append(lambda: real(*asked))
            elif outcome != "never":
                real(*asked)
            raise CommitFailedException("409") if outcome == "twice" else self.error

        return commit_table

    def arrive(self) -> None:
        """Let a request land that is still on its way, or be refused; whoever asked hears neither."""
        with suppress(CommitFailedException):
            self.late.pop()()


@pytest.fixture
def deafen(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Deaf]:
    real = catalog.commit_table

    def make(*outcomes: str, error: BaseException = UNHEARD) -> Deaf:
        deaf = Deaf(list(outcomes), error)
        monkeypatch.setattr(catalog, "commit_table", deaf.around(real))
        return deaf

    return make


def readable(cells: Cells) -> None:
    """Every version of the table can be read, down to its rows."""
    table = cells.catalog.load_table(cells.identifier)
    for one in table.metadata.snapshots:
        table.scan(snapshot_id=one.snapshot_id).to_arrow()


@pytest.mark.parametrize(
    "error", [UNHEARD, ReadTimeout("read timed out"), CutConnection("cut"), ServiceUnavailableError("503")], ids=repr
)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_replacement_is_made_once(outcome: str, error: Exception, cells: Cells, deafen: Callable[..., Deaf]) -> None:
    replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "before"))
    deafen(outcome, error=error)
    done = replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "ours"))
    table = cells.catalog.load_table(cells.identifier)
    assert len(table.metadata.snapshots) == 2
    assert done.snapshot_id == table.metadata.current_snapshot_id
    assert len(done.removed) == 1
    assert cells.generations() == {(0, 0): {"ours"}}
    assert len(cells.rows()) == 3
    readable(cells)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_append_is_made_once(outcome: str, cells: Cells, deafen: Callable[..., Deaf]) -> None:
    replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "before"))
    deafen(outcome, outcome)
    rectangle = cells.rectangle([0], [0])
    replace(cells.catalog, cells.identifier, rectangle, cells.write([(0, 0)], "ours"), keep=lambda _: True)
    assert len(cells.rows()) == 6
    readable(cells)


def test_a_refusal_that_answers_the_second_copy_of_a_request_removes_nothing(
    cells: Cells, deafen: Callable[..., Deaf]
) -> None:
    """A proxy that sends a request twice hears 409 the second time, and passes it on."""
    deafen("twice")
    done = replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "ours"))
    assert done.snapshot_id == cells.catalog.load_table(cells.identifier).metadata.current_snapshot_id
    readable(cells)


def test_what_landed_is_found_below_the_commits_of_others(
    cells: Cells, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = cells.write([(0, 0)], "ours")
    real_lock, others = table_lock, [cells.write([(1, 1)], "theirs")]
    deafen("before")

    def while_ours_waits(table: Any) -> Any:
        if others and table.metadata.current_snapshot_id is not None:
            replace(cells.catalog, cells.identifier, cells.rectangle([1], [1]), others.pop())
        return real_lock(table)

    monkeypatch.setattr(commit, "table_lock", while_ours_waits)
    done = replace(cells.catalog, cells.identifier, {"kafka_partition": {0}}, ours)
    assert done.added == (ours[0].path,)
    assert cells.generations() == {(0, 0): {"ours"}, (1, 1): {"theirs"}}
    readable(cells)


def test_a_commit_that_landed_and_was_taken_back_is_not_called_done(
    cells: Cells, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are not there, so no mark may stand for them."""
    first = replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "before"))
    deafen("before")
    real_lock, tries = table_lock, []

    def set_back(table: Any) -> Any:
        tries.append(1)
        if len(tries) == 2:
            table.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
        return real_lock(table)

    monkeypatch.setattr(commit, "table_lock", set_back)
    with pytest.raises(LakeChangeError, match="taken back by another program"):
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "ours"))
    assert cells.generations() == {(0, 0): {"before"}}
    readable(cells)


def test_a_catalog_that_never_answers_is_named_and_no_file_goes(
    cells: Cells, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contention, "GIVE_UP_AFTER", 0.2)
    deaf = deafen(*["never"] * 1000)
    with pytest.raises(LakeChangeError, match="did not say"):
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "ours"))
    folder = Path(cells.catalog.load_table(cells.identifier).location().removeprefix("file://"))
    assert len(list(folder.glob("metadata/*.avro"))) == 2 * deaf.calls > 2


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_process_that_dies_without_an_answer(outcome: str, cells: Cells, deafen: Callable[..., Deaf]) -> None:
    """The next process knows nothing of it; what it asked for may land before, between or after."""

    class Dead(BaseException):
        pass

    deaf = deafen(outcome, error=Dead())
    with pytest.raises(Dead):
        replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "dead"))
    replace(cells.catalog, cells.identifier, cells.rectangle([0], [0]), cells.write([(0, 0)], "alive"))
    while deaf.late:
        deaf.arrive()
    assert cells.generations() == {(0, 0): {"alive"}}
    assert len(cells.rows()) == 3
    readable(cells)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_ledger_rows_are_replaced_once(outcome: str, catalog: Catalog, deafen: Callable[..., Deaf]) -> None:
    ledger = Ledger(catalog, "shop")
    hour = timedelta(hours=1)
    windows = [Window(START + number * hour, START + (number + 1) * hour) for number in range(2)]
    rows = [cut_row(window) for window in windows]
    ledger.replace_cuts(windows[:1], rows[:1])
    deafen(outcome, outcome)
    ledger.replace_cuts(windows[1:], rows[1:])
    assert ledger.cuts() == rows
    table = catalog.load_table(("shop", "cuts"))
    assert len(table.metadata.snapshots) == 2


ONE_WINDOW = Window(START, START + timedelta(hours=1))
LEDGER_WRITERS: dict[str, Callable[[Ledger, int], None]] = {
    "cuts": lambda ledger, _: ledger.replace_cuts([ONE_WINDOW], [cut_row(ONE_WINDOW)]),
    "leases": lambda ledger, number: _lease(ledger, number),
    "lineages": lambda ledger, number: ledger.replace_lineages(
        [Lineage(0, "", f"server{number}", START, SourcePosition(0, 1, 4))]
    ),
}
"""Writers of the ledger's tables. The number makes each call's rows differ where equal rows are not written again."""


def _lease(ledger: Ledger, number: int) -> None:
    _, base = ledger.leases()
    row = Lease("p00", token=number, name="run", holder="host:1", since=START, beat=1, held=True)
    with suppress(StaleGenerationError):  # whoever asks for a lease and is late looks again
        ledger.replace_leases([row], base=base)


@pytest.mark.parametrize("table_name", LEDGER_WRITERS)
def test_ledger_files_stay_where_a_try_had_no_answer(
    table_name: str, catalog: Catalog, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run wins after a try without an answer: that try may still land if the table is set back."""
    ledger, write = Ledger(catalog, "shop"), LEDGER_WRITERS[table_name]
    write(ledger, 0)
    table = catalog.load_table(("shop", table_name))
    removed: list[str] = []
    monkeypatch.setattr(type(table.io), "delete", lambda self, path: removed.append(path))

    def stale(unsure: bool) -> Callable[..., Any]:
        tries: list[int] = []

        def instead(*asked: Any, **named: Any) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise StaleGenerationError(f"shop.{table_name}", expected="a", found="b", unsure=unsure)
            return replace(*asked, **named)

        return instead

    for number, (unsure, gone) in enumerate(((True, 0), (False, 1)), start=1):
        monkeypatch.setattr("dts_assets.store.ledger.replace", stale(unsure))
        write(ledger, number)
        assert len([path for path in removed if path.endswith(".parquet")]) == gone


def test_a_stale_base_says_that_a_try_had_no_answer(
    cells: Cells, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer is faster than the try whose answer is missing."""
    replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "before"))
    base = {file.file_path for file in files_in(cells.catalog.load_table(cells.identifier), {})}
    theirs, real_lock, tries = [cells.write([(0, 0)], "theirs")], table_lock, []
    deafen("never")

    def second_try(table: Any) -> Any:
        tries.append(1)
        if len(tries) == 2:
            replace(cells.catalog, cells.identifier, {}, theirs.pop())
        return real_lock(table)

    monkeypatch.setattr(commit, "table_lock", second_try)
    with pytest.raises(StaleGenerationError) as raised:
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], "ours"), base=base)
    assert raised.value.unsure


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_columns_and_facts_are_kept_once(outcome: str, cells: Cells, deafen: Callable[..., Deaf]) -> None:
    deafen(outcome)
    evolve(cells.catalog, cells.identifier, [("more", "bigint")])
    made = layout(iceberg_schema(COLUMNS), partition_by=("kafka_partition", "window_start"), metrics=())
    deafen(outcome)
    remember(cells.catalog, cells.identifier, made, name="fact", value="one")
    remember(cells.catalog, cells.identifier, made, name="fact", value="two")
    table = cells.catalog.load_table(cells.identifier)
    assert [name for name in table.schema().column_names if name == "more"] == ["more"]
    assert table.properties["fact"] == "one"


@pytest.mark.parametrize("done", [True, False])
def test_a_table_is_made_once(done: bool, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    real, answers = catalog.create_table, [UNHEARD]

    def deaf(*asked: Any, **named: Any) -> Any:
        made = real(*asked, **named) if done or not answers else None
        for error in answers:
            answers.clear()
            raise error
        return made

    monkeypatch.setattr(catalog, "create_table", deaf)
    table = ensure_table(catalog, ("shop", "plain"), layout(iceberg_schema((("number", "int"),))))
    assert catalog.load_table(("shop", "plain")).metadata.table_uuid == table.metadata.table_uuid


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_expiry_without_an_answer_leaves_every_version_readable(
    outcome: str, cells: Cells, deafen: Callable[..., Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    for number in range(8):
        replace(cells.catalog, cells.identifier, {}, cells.write([(0, 0)], str(number)))
    deaf = deafen(outcome)
    later = datetime.now(UTC) + KEEP_FOR + timedelta(days=1)
    expired = expire_snapshots(cells.catalog, cells.identifier, now=later)
    assert expired == (5 if outcome == "before" else 0)
    readable(cells)
    while deaf.late:
        deaf.arrive()
    readable(cells)
    assert len(cells.catalog.load_table(cells.identifier).metadata.snapshots) == (8 if outcome == "never" else 3)
    assert len(cells.rows()) == 3
