"""Files that nobody can commit any more go, although they are young: no run is under way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest import mock

from dts_assets.flows import maintenance
from dts_assets.flows.maintenance import maintain
from dts_assets.model.maintenance import Step
from dts_assets.planning.orphans import OrphanRule
from tests.flows.harness import Harness


def no_orphans(harness: Harness) -> None:
    """Remove all files that no version names."""
    eager = OrphanRule(datetime.now(UTC) + timedelta(days=1))
    with mock.patch.object(maintenance, "orphan_rule", return_value=eager):
        for _ in maintain(
            harness.pipeline, only=(Step.ORPHANS,), spark=lambda: harness.session, progress=harness.lines.append
        ):
            pass
