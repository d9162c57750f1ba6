"""The job that pauses, resumes, removes or adds tables.

It is started in the UI's Launchpad, and does what the command ``dts-assets tables`` does.
"""

from enum import StrEnum

import dagster as dg

from dts_assets.defs.failures import explained
from dts_assets.defs.rebuild import tables_named
from dts_assets.defs.resources import PipelineResource
from dts_assets.settings.models import Subscription


class Action(StrEnum):
    """The actions on tables, as the job's configuration names them."""

    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"
    ADD = "add"


class StateConfig(dg.Config):
    """The tables by their names at the source, `shopdb.orders`, and what is done with them.

    `action` is `pause`, `resume`, `remove` or `add`. A pause needs a `reason`: words for the people who find the table.
    """

    tables: list[str]
    action: str
    reason: str = ""


def states_job_name(subscription: str) -> str:
    """Return the name of the job that changes the states of tables."""
    return f"{subscription}_table_states"


def states_job(subscription: Subscription) -> dg.JobDefinition:
    """Return the job that pauses or resumes tables, takes them out of the lake, or adds them again."""

    @dg.op(
        name=f"{subscription.name}_change_table_states",
        tags={"subscription": subscription.name},
        out=dg.Out(dg.Nothing),
    )
    def change(context: dg.OpExecutionContext, config: StateConfig, pipelines: PipelineResource) -> None:
        from dts_assets.flows.pauses import paused_by_person, resume_tables
        from dts_assets.flows.removal import add_tables, remove_tables

        action = _action_of(config)
        with explained(context):
            pipeline = pipelines.pipeline(subscription.name)
            tables = tables_named(pipeline, config.tables)
            match action:
                case Action.PAUSE:
                    done = {"paused": len(paused_by_person(pipeline, tables, reason=config.reason))}
                case Action.RESUME:
                    done = {"resumed": len(resume_tables(pipeline, tables))}
                case Action.REMOVE:
                    done = {"dropped": remove_tables(pipeline, tables, progress=context.log.info)}
                case Action.ADD:
                    done = {"windows": add_tables(pipeline, tables, progress=context.log.info)}
        context.add_output_metadata({"tables": len(tables), **done})

    @dg.job(
        name=states_job_name(subscription.name),
        description="Pauses or resumes tables, takes them out of the lake with all their rows, or adds removed tables again.",
    )
    def job() -> None:
        change()

    return job


def _action_of(config: StateConfig) -> Action:
    """Return the action of a configuration.

    Raises:
        Failure: There is no such action, or a pause has no reason.
    """
    if config.action not in list(Action):
        known = ", ".join(Action)
        raise dg.Failure(f"{config.action} is no action on tables; write one of {known}", allow_retries=False)
    if config.action == Action.PAUSE and not config.reason.strip():
        raise dg.Failure("a pause has no reason; write words for the people who find the table", allow_retries=False)
    return Action(config.action)
