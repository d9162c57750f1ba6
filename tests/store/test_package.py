"""dts-assets as executors get it: an archive that works from anywhere, and a digest that tells two versions apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from dts_assets.flows import spark_daemon
from dts_assets.store import package


def test_the_archive_holds_all_modules_and_can_be_imported_from(tmp_path: Path) -> None:
    archive = package.package_archive()
    assert archive is package.package_archive(), "one in a process"
    names = ZipFile(archive).namelist()
    root = Path(package.__file__).parents[1]
    assert set(names) == {f"dts_assets/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")}
    code = "from dts_assets.store import package; print(package.__file__, package.package_digest())"
    told = subprocess.run(  # by the archive's bare name, as an executor finds it in its folder
        [sys.executable, "-S", "-c", code],
        cwd=archive.parent, env={"PYTHONPATH": package.ARCHIVE}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    place, digest = told.stdout.split()
    assert f"{package.ARCHIVE}/dts_assets/store/" in place
    assert digest == package.package_digest(), "an archive has the digest of what it was made from"


def test_the_daemon_knows_the_archive_without_importing_what_makes_it() -> None:
    assert package.ARCHIVE == spark_daemon._OURS


def test_equal_modules_give_equal_archives(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package.write_archive(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_archive_goes_with_its_process() -> None:
    code = "from dts_assets.store.package import package_archive; print(package_archive())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not Path(told.stdout.strip()).exists()
