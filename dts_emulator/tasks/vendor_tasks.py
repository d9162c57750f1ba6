"""The tasks of all vendors by their wire format: the one table of the laboratory that names formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from dts_emulator.canal.canal_options import CanalOptions
from dts_emulator.canal.canal_task import CanalTask, produce_canal
from dts_emulator.drs.drs_avro_task import DrsAvroOptions, DrsAvroTask, drs_schema_file, produce_drs_avro
from dts_emulator.drs.drs_options import DrsJsonOptions, DrsOptions
from dts_emulator.drs.drs_task import DrsTask, produce_drs
from dts_emulator.dts.dts_options import DtsOptions
from dts_emulator.dts.dts_task import DtsTask, produce
from dts_emulator.dts_avro.avro_task import AvroOptions, AvroTask, produce_avro
from dts_emulator.dts_avro.records import schema_file
from dts_emulator.dts_json.json_task import JsonOptions, JsonTask, produce_json
from dts_emulator.messages.clocks import Clock
from dts_emulator.messages.message import Message
from dts_emulator.messages.task import Task
from dts_emulator.source.events import Transaction

TaskOptions: TypeAlias = DtsOptions | DrsOptions | CanalOptions


@dataclass(frozen=True, slots=True)
class VendorTask:
    """A vendor's task: its options, its recording of transactions, and the task that follows a live server.

    ``schema`` gives the file that its messages are read with, where they need one.
    """

    options: type[TaskOptions]
    recording: Callable[[Iterable[Transaction], Any, int | None], Iterator[Message]]
    following: Callable[[Any, Clock], Task]
    schema: Callable[[], bytes] | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the options."""
        return frozenset(field.name for field in fields(self.options))


def _drs(options: type[DrsOptions]) -> VendorTask:
    return VendorTask(options, lambda transactions, chosen, _: produce_drs(transactions, chosen), DrsTask)


VENDOR_TASKS: Mapping[str, VendorTask] = {
    "dts-protobuf": VendorTask(
        DtsOptions, lambda transactions, options, until: produce(transactions, options, until=until), DtsTask
    ),
    "dts-avro": VendorTask(
        AvroOptions,
        lambda transactions, options, until: produce_avro(transactions, options, until=until),
        AvroTask,
        schema_file,
    ),
    "dts-json": VendorTask(
        JsonOptions, lambda transactions, options, until: produce_json(transactions, options, until=until), JsonTask
    ),
    "drs-avro": VendorTask(
        DrsAvroOptions,
        lambda transactions, options, _: produce_drs_avro(transactions, options),
        DrsAvroTask,
        drs_schema_file,
    ),
    "drs-json-c": _drs(DrsOptions),
    "drs-json": _drs(DrsJsonOptions),
    "canal-json": VendorTask(
        CanalOptions, lambda transactions, options, _: produce_canal(transactions, options), CanalTask
    ),
}
FORMATS = tuple(VENDOR_TASKS)


def vendor_of(options: TaskOptions) -> VendorTask:
    """Return the task that some options are for."""
    return next(vendor for vendor in VENDOR_TASKS.values() if vendor.options is type(options))


def options_of(chosen: str, given: Mapping[str, Any]) -> TaskOptions:
    """Return the options of a format's task from the parameters of the running command.

    A parameter that is None has its default.

    Raises:
        click.UsageError: A parameter is another format's, or a value is none that the task can have.
    """
    vendor, context = VENDOR_TASKS[chosen], click.get_current_context()
    spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name in given.keys() - vendor.parameters:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            owners = ", ".join(other for other in FORMATS if name in VENDOR_TASKS[other].parameters)
            raise click.UsageError(f"{spelled[name]} is for --format {owners}, not for {chosen}")
    try:
        return vendor.options(
            **{name: value for name, value in given.items() if name in vendor.parameters and value is not None}
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
