"""What the Launchpad and the pages of Automation and Jobs say to people who have read no document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dts_assets.defs.copying import CopyConfig
from dts_assets.defs.resources import PipelineResource, SparkResource
from dts_assets.model.tables import TableId

if TYPE_CHECKING:
    from tests.defs.projects import Project

DATABASE = """\
    bootstrap: {from: {jdbc: {url: "jdbc:mysql://127.0.0.1:1/", user: reader, password: none}}}
    verify: {every: 1h, jdbc: {url: "jdbc:mysql://127.0.0.1:1/", user: reader, password: none}}
"""


def test_all_that_a_person_may_start_is_described(project: Project) -> None:
    project.register({TableId("shopdb", "", "orders"): [("id", "int", True)]})
    project.config.write_text(project.config.read_text() + DATABASE)
    found = project.definitions()
    started = [*(found.schedules or ()), *(found.sensors or ()), *(found.jobs or ())]
    assert {"shop_copy", "shop_verify_schedule", "shop_source_settings_schedule"} <= {one.name for one in started}
    assert [one.name for one in started if not getattr(one, "description", None)] == []


def test_each_setting_of_a_copy_is_described_where_it_is_typed() -> None:
    assert [name for name, field in CopyConfig.model_fields.items() if not field.description] == []
    assert [one for one in (PipelineResource, SparkResource) if ":meth:" in (one.__doc__ or "")] == []


def test_an_unknown_kind_of_copy_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="bootstrap or resync"):
        CopyConfig(kind="anew")
