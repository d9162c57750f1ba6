"""An error of a flow is a failure with its own sentence, whichever step called the flow, and a tick that is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from pyiceberg.exceptions import ServiceUnavailableError
from sqlalchemy.exc import OperationalError

from dts_assets.defs.failures import CANNOT_BE_RETRIED, MAY_PASS, skips_with_reason, trouble_of
from dts_assets.errors import DtsAssetsError, StaleGenerationError, UnwritableLakeError
from dts_assets.errors.unexpected import UnexpectedError
from dts_assets.model.tables import TableId
from dts_assets.planning.latches import Trouble

if TYPE_CHECKING:
    from tests.defs.projects import Project

LASTING = UnwritableLakeError("/lake", "permission denied")
PASSING = StaleGenerationError("shop.entries", expected="1", found="2")
STEPS = {
    "raw_envelopes": ("ingest", "dts_assets.flows.raw.materialize_raw", "p00|2026-01-05-00:00"),
    "entries": ("ingest", "dts_assets.flows.entries.materialize_entries", "p00|2026-01-05-00:00"),
    "tables": ("tables", "dts_assets.flows.tables.materialize_tables", "2026-01-05-00:00"),
    "redrive": ("redrive", "dts_assets.flows.redrive.redrive", None),
    "live": ("live", "dts_assets.flows.follow.first_open", None),
}


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr("dts_assets.defs.resources.SparkResource.start", lambda _: None)
    table = TableId("shopdb", "", "orders")
    return project.configure(complete=False, end="null", live=True).register({table: [("id", "int", True)]})


@pytest.mark.more(after=1)
@pytest.mark.parametrize(("step", "error"), [*((step, LASTING) for step in STEPS), ("redrive", PASSING)])
def test_every_step_explains_the_error_of_its_flow(
    step: str,
    error: DtsAssetsError,
    shop: Project,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    job, flow, partition = STEPS[step]
    monkeypatch.setattr(flow, fail)
    alone = [dg.AssetKey(["shop", step])] if job == "ingest" else None
    result = (
        shop.definitions()
        .resolve_job_def(f"shop_{job}")
        .execute_in_process(partition_key=partition, asset_selection=alone, instance=instance, raise_on_error=False)
    )
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None
    assert said.description == str(error)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert (CANNOT_BE_RETRIED in run.tags) == (not error.retriable)
    assert (MAY_PASS in run.tags) == error.retriable
    assert trouble_of(run) is (Trouble.PASSING if error.retriable else Trouble.LASTING)


LOCKED = OperationalError("INSERT", None, Exception("database is locked"))


@pytest.mark.more(after=1)
@pytest.mark.parametrize(
    ("before", "error", "trouble"),
    [
        ({CANNOT_BE_RETRIED: "BrokerLoginError"}, PASSING, Trouble.PASSING),
        ({MAY_PASS: "OvertakenError"}, LASTING, Trouble.LASTING),
        ({}, LOCKED, Trouble.PASSING),
        ({}, ServiceUnavailableError("503"), Trouble.PASSING),
        ({}, ValueError("odd"), Trouble.UNKNOWN),
    ],
    ids=["after a lasting one", "after a passing one", "a locked catalog", "a catalog without answer", "unexpected"],
)
def test_a_run_that_fails_names_its_own_trouble_and_not_that_of_the_run_before(
    before: dict[str, str],
    error: Exception,
    trouble: Trouble,
    shop: Project,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who executes a run again gives its tags to the new one."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("dts_assets.flows.redrive.redrive", fail)
    job = shop.definitions().resolve_job_def("shop_redrive")
    result = job.execute_in_process(instance=instance, tags=before, raise_on_error=False)
    assert not result.success
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert trouble_of(run) is trouble


def test_a_tick_is_skipped_with_the_sentence_and_other_errors_go_on() -> None:
    def tick(error: Exception) -> dg.SkipReason:
        raise error

    skipped = skips_with_reason(tick)(LASTING)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == str(LASTING)
    busy = skips_with_reason(tick)(LOCKED)
    assert isinstance(busy, dg.SkipReason)
    assert "The catalog of the lake cannot be asked now" in str(busy.skip_message)
    with pytest.raises(UnexpectedError, match="ValueError") as caught:
        skips_with_reason(tick)(ValueError("odd"))
    assert "odd" not in str(caught.value)


@pytest.mark.parametrize("outer", [ValueError("a value"), LASTING], ids=["unexpected", "with a sentence"])
def test_no_text_of_an_error_that_may_hold_a_value_comes_into_the_event_log(
    shop: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, outer: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        try:
            raise KeyError(" ".join(("a", "value")))  # its line of code stands in the stack
        except KeyError as error:
            raise outer from error

    monkeypatch.setattr("dts_assets.flows.redrive.redrive", fail)
    result = (
        shop.definitions().resolve_job_def("shop_redrive").execute_in_process(instance=instance, raise_on_error=False)
    )
    assert not result.success
    kept = "".join(dg.serialize_value(one) for one in instance.all_logs(result.run_id))
    assert "KeyError" in kept
    assert "a value" not in kept.replace("may hold a value", "")
