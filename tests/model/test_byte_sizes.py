"""Numbers of bytes as people read them."""

from __future__ import annotations

import pytest

from dts_assets.model.byte_sizes import exact_size, rounded_size


@pytest.mark.parametrize(
    ("size", "exact", "rounded"),
    [
        (0, "0TB", "0 B"),
        (999, "999B", "999 B"),
        (1000, "1KB", "1.0 KB"),
        (1_234_000, "1234KB", "1.2 MB"),
        (20 * 10**9, "20GB", "20.0 GB"),
        (4_500 * 10**12, "4500TB", "4,500.0 TB"),
    ],
)
def test_a_number_of_bytes_is_told_exactly_and_rounded(size: int, exact: str, rounded: str) -> None:
    assert (exact_size(size), rounded_size(size)) == (exact, rounded)
