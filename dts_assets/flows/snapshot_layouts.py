"""The layouts of snapshots whose columns stay.

New files get them at once, and files that stand get them when they are put in order.
"""

from __future__ import annotations

from dataclasses import replace

from dts_assets.flows.pipeline import Pipeline
from dts_assets.flows.snapshot_jobs import SnapshotJob
from dts_assets.model.layouts import Layout
from dts_assets.stages.laid_out_columns import has_former_names, layout_of_present


def laid_out(pipeline: Pipeline, job: SnapshotJob, layout: Layout | None = None) -> SnapshotJob:
    """Return a job whose new files have the layout that is asked for.

    ``layout`` is that layout with the names of columns in the snapshot, where it is known already.

    Raises:
        LakeTableError: The layout names a column that the table has not, or one whose type the transform cannot take.
    """
    path, present = pipeline.table_path(job.layer.name, job.table), job.before.present
    there = pipeline.lake.table(path)
    assert there is not None, "tables are made before their jobs are planned"
    if layout is None:
        layout = job.layer.layout(pipeline.settings, job.table)
        layout = layout if present is None else layout_of_present(layout, present)
    return replace(job, laid_out=pipeline.lake.lay_out(path, there, layout))


def asks_for_former_names(pipeline: Pipeline, job: SnapshotJob) -> bool:
    """Tell whether a layout calls a column of a job's table by no name that it has.

    Then the schemas of the table have to be read.
    """
    present = job.before.present
    return present is not None and has_former_names(job.layer.layout(pipeline.settings, job.table), present)
