"""The output of commands.

A reader that has enough of it ends no command, and one that cannot be written is a sentence.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO

from dts_assets.errors import UnwritableOutputError


class Output(TextIOWrapper):
    """A stream of this process that takes text, whether somebody reads it or not.

    A reader such as ``head`` may close a pipe before all is written. The work of a command is done all the same, and its exit
    code tells of the work.
    """

    is_left = False
    """True once nobody reads any more."""

    @classmethod
    def around(cls, stream: TextIO) -> Output:
        """Return a stream that writes where another one does."""
        return cls(
            stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=bool(stream.line_buffering)
        )  # fmt: skip

    def write(self, text: str) -> int:
        """Write a text, or drop it.

        Raises:
            UnwritableOutputError: It cannot be written, and not because nobody reads it.
        """
        try:
            return super().write(text)
        except OSError as error:
            self._leave(error)
            return len(text)

    def flush(self) -> None:
        """Write what waits, or drop it.

        Raises:
            UnwritableOutputError: It cannot be written, and not because nobody reads it.
        """
        try:
            super().flush()
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        """Let everything that follows go nowhere, what waits in memory as well.

        Raises:
            UnwritableOutputError: The stream has a reader.
        """
        self.is_left = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            raise UnwritableOutputError((error.strerror or type(error).__name__).lower()) from None


def take_over_output() -> None:
    """Let the streams of this process be of this kind."""
    sys.stdout, sys.stderr = Output.around(sys.stdout), Output.around(sys.stderr)


def nobody_reads() -> bool:
    """Return whether the reader of standard output has gone."""
    return isinstance(sys.stdout, Output) and sys.stdout.is_left
