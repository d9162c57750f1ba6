"""Addresses of a Spark: where tasks run, on how many cores, and who is asked for executors."""

from __future__ import annotations

import pytest

from dts_assets.model.spark_masters import (
    addresses,
    is_connect,
    is_on_this_machine,
    local_cores,
    runs_here,
    without_parameters,
)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[ 3 ]", 3),
        ("local[*]", 8),
        ("local[4,2]", 4),
        ("local[*, 2]", 8),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
        ("k8s://https://host:6443", None),
        ("sc://host:15002", None),
        ("local[two]", None),
        ("", None),
    ],
)
def test_a_local_master_names_its_cores(master: str, cores: int | None) -> None:
    assert local_cores(master, here=8) == cores
    assert runs_here(master) is (cores is not None)


def test_executors_of_a_local_cluster_are_processes_of_this_machine() -> None:
    assert is_on_this_machine("local-cluster[2,1,1024]")
    assert is_on_this_machine("local[2]")
    assert not is_on_this_machine("spark://host:7077")


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://host:7077", [("host", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://host", []),
        ("spark://host:99999", []),
        ("k8s://https://host:6443", [("host", 6443)]),
        ("k8s://https://host/with/a/path", [("host", 443)]),
        ("k8s://http://host", [("host", 80)]),
        ("k8s://host:8443", [("host", 8443)]),
        ("yarn", []),
        ("local[2]", []),
        ("sc://host:15003/;use_ssl=true", [("host", 15003)]),
        ("sc://host", [("host", 15002)]),
        ("spark://", []),
    ],
)
def test_masters_are_found_in_addresses(master: str, found: list[tuple[str, int]]) -> None:
    assert list(addresses(master)) == found


def test_an_address_is_shown_without_its_token() -> None:
    assert without_parameters("sc://host:15002/;token=hunter2") == "sc://host:15002"
    assert without_parameters("spark://host:7077") == "spark://host:7077"
    assert is_connect("sc://host")
    assert not is_connect("spark://host:7077")
