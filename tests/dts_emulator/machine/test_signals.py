"""TERM and a closed terminal leave a block as Ctrl-C does, and the handlers from before come back."""

from __future__ import annotations

import signal

import pytest

from dts_emulator.machine.signals import interrupted_by_signals


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_block_as_an_interrupt(sign: signal.Signals) -> None:
    before = signal.getsignal(sign)
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        signal.raise_signal(sign)
    assert signal.getsignal(sign) is before
