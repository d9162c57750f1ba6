"""Codes of commits: worktrees that come and go, and children that import nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.shop_example import shop_config
from tests.versions.base import BASE
from tests.versions.lakes import Place, rows_of
from tests.versions.made_by import (
    NOTHING,
    ROOT,
    ChildError,
    Code,
    Codes,
    Step,
    ask,
    code_in,
    code_of,
    edited,
    make_lake,
    make_lakes,
    run_command,
    windows,
)

pytestmark = pytest.mark.more

MISSING = "0123456789abcdef0123456789abcdef01234567"


class GoneWrong(Exception):
    """Stands for a failing test."""


def worktrees() -> str:
    return subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), "worktree", "list"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def fail_in_a_worktree(seen: list[Path]) -> None:
    with code_of(BASE) as code:
        seen.append(code.folder)
        assert str(code.folder) in worktrees()
        assert (code.folder / "dts_assets" / "model" / "version.py").is_file()
        raise GoneWrong


def test_a_worktree_goes_when_a_test_fails() -> None:
    seen: list[Path] = []
    with pytest.raises(GoneWrong):
        fail_in_a_worktree(seen)
    (folder,) = seen
    assert not folder.exists()
    assert str(folder) not in worktrees()


def test_a_commit_is_checked_out_once(codes: Codes) -> None:
    assert codes.of(BASE) is codes.of(BASE)


def test_a_commit_that_the_clone_lacks_skips_and_fails_in_continuous_integration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", "")
    with (
        pytest.raises(pytest.skip.Exception, match=f"{MISSING} is not in this clone: fetch the whole history"),
        code_of(MISSING),
    ):
        pass
    monkeypatch.setenv("CI", "true")
    with (
        pytest.raises(pytest.fail.Exception, match=f"{MISSING} is not in this clone: fetch the whole history"),
        code_of(MISSING),
    ):
        pass


def test_the_code_and_the_entry_points_are_those_of_the_folder(codes: Codes) -> None:
    base = codes.of(BASE)
    for code in (base, codes.present):
        text = (code.folder / "dts_assets" / "model" / "version.py").read_text()
        assert f'CODE_VERSION = "{make_lakes(code, []).code_version}"' in text
    assert base.metadata is not None
    assert (
        "drs-json-c = dts_assets.wire.drs_json_c:DrsJsonC"
        in next(base.metadata.glob("*.dist-info/entry_points.txt")).read_text()
    )


def test_a_child_that_imports_another_package_is_refused(codes: Codes, tmp_path: Path) -> None:
    empty = Code(tmp_path, "empty", codes.of(BASE).metadata)
    with pytest.raises(AssertionError, match="the child has imported"):
        make_lakes(empty, [])


def test_an_edit_needs_its_text_once(codes: Codes, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="has the text of an edit 0 times"):
        edited(codes.of(BASE), tmp_path / "edited", {"dts_assets/model/version.py": ("no such text", "")})


def test_a_step_that_fails_is_named_with_its_configuration(codes: Codes, tmp_path: Path) -> None:
    with pytest.raises(ChildError, match=r"pipeline\.yaml: the step no_such_step failed"):
        make_lake(codes.of(BASE), tmp_path / "pipeline.yaml", Step("no_such_step"))


def test_a_configuration_in_a_file_gets_its_lake_window_by_window(codes: Codes, tmp_path: Path) -> None:
    config = shop_config(tmp_path, "coupons", hours=2)
    made = make_lake(codes.of(BASE), config, windows(0, 0), ask(), windows(1, 1), ask(), subscription="shop")
    first, last = made.lakes[0].answers
    assert len(first.ingest) == 4
    assert last == NOTHING
    rows = rows_of(Place(config, tmp_path, ()), "windows", subscription="shop")
    assert {row["code_version"] for row in rows} == {made.code_version}


@pytest.mark.long
@pytest.mark.spark
def test_the_command_run_of_a_commit_makes_a_lake_on_spark(codes: Codes, tmp_path: Path) -> None:
    config = shop_config(tmp_path, "coupons", hours=1)
    assert "partitions of 1 windows" in run_command(codes.of(BASE), "run", "--config", str(config))
    assert len(rows_of(Place(config, tmp_path, ()), "windows", subscription="shop")) == 4


def test_entry_points_are_written_anew_for_each_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "dts-assets"\nversion = "9"\n[project.entry-points."dts_assets.formats"]\none = "a.b:C"\n'
    )
    code = code_in(tmp_path, metadata=tmp_path / "metadata")
    points = tmp_path / "metadata" / "dts_assets-9.dist-info" / "entry_points.txt"
    assert points.read_text() == "[dts_assets.formats]\none = a.b:C\n"
    assert code.path.startswith(str(tmp_path))
