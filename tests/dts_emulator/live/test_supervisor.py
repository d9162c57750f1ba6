"""A supervisor and dummy processes: nothing is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dts_emulator.errors import ChildEnded, ChildNotReady
from dts_emulator.live.process_guard import sweep, tagged
from dts_emulator.live.supervisor import TAG_VARIABLE, Child, Supervisor

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
"""Does not hear TERM."""

ONE_OF_FOUR = """
import sys, time
from pathlib import Path
mine = Path(sys.argv[1])
mine.touch()
while len(list(mine.parent.iterdir())) < 4:
    time.sleep(0.02)
print("up", flush=True)
time.sleep(600)
"""
"""Is up when four of its kind have started."""

FAMILY = """
import subprocess, sys, time
subprocess.Popen(["sleep", "600"])
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""
"""Has a child in its group, and one that left it."""

WITNESS = """
import signal, sys, time
def bye(*_):
    open(sys.argv[1], "a").write(sys.argv[2] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("up", flush=True)
time.sleep(600)
"""
"""Writes its name into a file when it is told to end."""

SUPERVISED = """
import sys, time
from pathlib import Path
from dts_emulator.live.supervisor import Child, Supervisor
logs = Path(sys.argv[1])
with Supervisor(logs) as supervisor:
    for name in ("one", "two"):
        command = (sys.executable, "-c", sys.argv[2])
        supervisor.start(Child(name, command, lambda: "up" in supervisor.said(name), farewell=0.5))
    try:
        print(*supervisor.processes(), flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        pass
print("stopped", flush=True)
"""


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def up(supervisor: Supervisor, name: str) -> Callable[[], bool]:
    return lambda: "up" in supervisor.said(name)


def watch(supervisor: Supervisor) -> None:
    """Ten seconds of looking."""
    for _ in range(500):
        supervisor.check()
        time.sleep(0.02)


def gone(processes: set[int]) -> bool:
    """Whether none of some processes lives; one that has ended and was not waited for does not."""
    return not any(state(process) not in ("", "Z") for process in processes)


def state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def comes_true(question: Callable[[], bool], *, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_children_are_awaited_and_ended_in_reverse_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    with Supervisor(tmp_path / "logs") as supervisor:
        for name in ("one", "two", "three"):
            supervisor.start(Child(name, python(WITNESS, str(order), name), up(supervisor, name)))
        assert supervisor.names == ("one", "two", "three")
        assert {supervisor.pid(name) for name in supervisor.names} == supervisor.processes()
        assert {os.getpgid(supervisor.pid(name)) for name in supervisor.names} == supervisor.processes()
        processes = supervisor.processes()
    assert order.read_text().split() == ["three", "two", "one"]
    assert gone(processes)


def test_children_may_start_side_by_side(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        started = tmp_path / "started"
        started.mkdir()
        commands = [python(ONE_OF_FOUR, str(started / str(number))) for number in range(4)]
        supervisor.start(*(Child(f"c{n}", command, up(supervisor, f"c{n}")) for n, command in enumerate(commands)))
        assert supervisor.names == ("c0", "c1", "c2", "c3")


def test_what_a_child_started_goes_with_it_even_from_another_session(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Child("family", python(FAMILY), up(supervisor, "family")))
        processes = supervisor.processes()
        assert len(processes) == 3
    assert gone(processes)


def test_a_child_that_does_not_hear_is_ended_by_force(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Child("stubborn", python(STUBBORN), up(supervisor, "stubborn"), farewell=0.2))
        processes = supervisor.processes()
    assert gone(processes)


def test_a_child_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    code = "import sys, time; print('the port is taken'); sys.stdout.flush(); time.sleep(0.3); sys.exit(3)"
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Child("bystander", ("sleep", "600")))
        supervisor.start(Child("server", python(code)))
        with pytest.raises(ChildEnded) as caught:
            watch(supervisor)
        assert supervisor.names == ("bystander",)
    assert caught.value.code == 3
    assert str(caught.value) == (
        f"server has ended with exit code 3; its log is {tmp_path / 'server.log'}\n    the port is taken"
    )


def test_a_child_that_ends_before_it_is_ready_is_no_wait(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor, pytest.raises(ChildEnded, match="weak has ended by signal 9"):
        supervisor.start(Child("weak", ("sh", "-c", "kill -9 $$"), lambda: False, patience=30))


def test_a_child_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        with pytest.raises(ChildNotReady, match=r"slow was not ready after 0 s; its log is .*slow\.log"):
            supervisor.start(Child("slow", ("sleep", "600"), lambda: False, patience=0.3))
        assert supervisor.processes() == set()


def test_one_that_was_killed_or_stopped_is_not_missed_and_starts_again(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        family = Child("family", python(FAMILY), up(supervisor, "family"))
        supervisor.start(family)
        first = supervisor.pid("family")
        group = {process for process in supervisor.processes() if os.getpgid(process) == first}
        assert len(group) == 2
        supervisor.kill("family")
        supervisor.check()
        assert comes_true(lambda: gone(group))
        supervisor.start(family)
        assert supervisor.pid("family") != first
        supervisor.stop("family")
        supervisor.check()
        supervisor.start(family)
        assert supervisor.log("family").read_text().split() == ["up"] * 3


def test_an_error_in_the_block_ends_them_too(tmp_path: Path) -> None:
    processes: set[int] = set()

    def fails() -> None:
        with Supervisor(tmp_path) as supervisor:
            supervisor.start(Child("family", python(FAMILY), up(supervisor, "family")))
            processes.update(supervisor.processes())
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        fails()
    assert len(processes) == 3
    assert gone(processes)


@pytest.mark.more(after=1)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("code", [FAMILY, STUBBORN], ids=["family", "stubborn"])
def test_nothing_is_left_of_a_supervisor_that_is_interrupted_or_killed(
    tmp_path: Path, sign: signal.Signals, code: str
) -> None:
    command = (sys.executable, "-c", SUPERVISED, str(tmp_path), code)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as outer:
        assert outer.stdout is not None
        processes = {int(word) for word in outer.stdout.readline().split()}
        assert len(processes) >= 2
        outer.send_signal(sign)
        if sign is signal.SIGINT:
            time.sleep(0.2)
            outer.send_signal(sign)  # impatience
        assert (outer.stdout.read() == "stopped\n") is (sign is signal.SIGINT)
    assert comes_true(lambda: gone(processes), seconds=25)


def test_only_marked_processes_are_swept() -> None:
    tag = f"{TAG_VARIABLE}=one-of-a-test"
    with (
        subprocess.Popen(["sleep", "600"], env={**os.environ, TAG_VARIABLE: "one-of-a-test"}) as ours,
        subprocess.Popen(["sleep", "600"], env={**os.environ, TAG_VARIABLE: "one-of-a-test-too"}) as other,
    ):
        assert comes_true(lambda: tagged(tag) == {ours.pid})
        assert sweep(tag, patience=2) == set()
        assert ours.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()
