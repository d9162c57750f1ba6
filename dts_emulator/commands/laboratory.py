"""Errors at the end of the laboratory's commands: a sentence for a person, and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click
from rich.console import Console

from dts_emulator.errors import EmulatorError, MissingExtra

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_PACKAGES_OF_THE_EXTRA = ("pymysql", "pymysqlreplication")


def laboratory_command(command: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Let a command write an error of the laboratory to stderr and end with its exit code.

    A package of the extra that is not installed is such an error, too.
    """

    @wraps(command)
    def with_sentences(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return command(*args, **kwargs)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _PACKAGES_OF_THE_EXTRA:
                raise
            ended: EmulatorError = MissingExtra(error.name or "")
        except EmulatorError as error:
            ended = error
        Console(stderr=True, soft_wrap=True, markup=False, highlight=False).print(str(ended))
        raise click.exceptions.Exit(ended.exit_code)

    return with_sentences
