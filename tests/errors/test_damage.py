"""The table that a damaged file belongs to, by the folders of tables that were opened or else by its path."""

from __future__ import annotations

import pytest

from dts_assets.errors import damage
from dts_assets.errors.damage import DamagedFileError, FileOwner, remember_folders


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "_TABLES", {})


@pytest.mark.parametrize("folder", ["s3://lake/shop.snapshot.bank/one", "s3://lake/6f0c/", "s3a://lake/shop/a/b/c"])
@pytest.mark.parametrize("file", ["data/0f/1.parquet", "metadata/snap-1.avro", "metadata/00001-a.metadata.json"])
def test_a_table_that_was_opened_owns_what_lies_in_its_folders(folder: str, file: str) -> None:
    path = f"s3://{folder.partition('://')[2].rstrip('/')}/{file}"
    assert not FileOwner.of(path).is_of_one_table
    remember_folders(("shop", "snapshot", "bank", "one"), [folder])
    assert FileOwner.of(path) == FileOwner("shop", "snapshot", "bank.one", file.endswith(".parquet"))
    assert FileOwner.of(path.replace("lake/", "lake2/")).layer == ""


def test_a_folder_of_two_tables_tells_none_and_a_folder_inside_it_does() -> None:
    for name in ("one", "two"):
        remember_folders(("shop", "snapshot", "bank", name), ["s3://lake/pool", f"s3://lake/{name}"])
    remember_folders(("shop", "history", "bank", "one"), ["s3://lake/pool/history"])
    assert FileOwner.of("s3://lake/pool/data/1.parquet").layer == ""
    assert FileOwner.of("s3://lake/two/data/1.parquet").table == "bank.two"
    assert FileOwner.of("s3://lake/pool/history/1.parquet").layer == "history"


def test_the_commands_have_the_subscription_and_names_that_a_shell_and_the_command_take() -> None:
    remember_folders(("shop", "snapshot", "my bank", "a%2Eb"), ["s3://lake/x"])
    said = str(DamagedFileError("s3://lake/x/data/1.parquet", "it is empty"))
    assert "`dts-assets tables rebuild 'my bank.a%2Eb' --subscription shop`" in said
    remember_folders(("shop", "entries"), ["s3://lake/y"])
    assert "materialize shop/entries" in str(DamagedFileError("s3://lake/y/data/1.parquet", "it is empty"))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["raw_envelopes", "entries"])
def test_a_copied_table_with_the_name_of_a_table_of_ours_is_not_made_again(name: str, *, known: bool) -> None:
    folder = f"s3://lake/shop/copies/bank/{name}"
    if known:
        remember_folders(("shop", "copies", "bank", name), [folder])
    owner = FileOwner.of(f"{folder}/data/1.parquet")
    assert (owner, owner.is_of_one_table) == (FileOwner("shop", "", f"bank.{name}", is_rows=True), False)
    assert owner.way_out.startswith("Nothing restores it but a copy of the lake")
