"""Tasks get the properties of their own table: vended keys reach them, are renewed in time, and are never shown."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import pkgutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table import Table

from dts_assets import flows
from dts_assets.errors import ExpiredCredentialsError, LakeTableError
from dts_assets.errors.origins import concerns_table
from dts_assets.store import contention
from dts_assets.store.file_stores import RENEW_BEFORE, FileStore, VendedCredentials, expiry_of, is_renewal_due
from dts_assets.store.files import TableWriter, WriteTarget, read_batches

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECRET = "hush-hush"


@dataclasses.dataclass
class VendingCatalog:
    """A catalog that vends keys of its own with each table, numbered, that last for a while."""

    lasts: timedelta | None = timedelta(hours=1)
    properties: dict[str, str] = dataclasses.field(default_factory=lambda: {"uri": "http://h", "token": SECRET})
    loads: int = 0
    away: int = 0

    def load_table(self, name: tuple[str, ...]) -> Table:
        if self.away:
            self.away -= 1
            raise ServiceUnavailableError("busy")
        self.loads += 1
        keys = {"s3.access-key-id": f"{name[-1]}-{self.loads}", "s3.secret-access-key": SECRET}
        if self.lasts is not None:
            keys["s3.session-token-expires-at-ms"] = str(int((datetime.now(UTC) + self.lasts).timestamp() * 1000))
        return cast("Table", _Table(name, self, {**self.properties, **keys}))


class _Table:
    def __init__(self, name: tuple[str, ...], catalog: VendingCatalog, properties: Mapping[str, str]) -> None:
        self._name, self.catalog, self.io = name, catalog, _IO(properties)

    def name(self) -> tuple[str, ...]:
        return self._name


@dataclasses.dataclass
class _IO:
    properties: Mapping[str, str]


def sent(store: FileStore) -> FileStore:
    return cast("FileStore", pickle.loads(pickle.dumps(store)))


class TestVendedKeys:
    def test_a_task_gets_the_keys_of_its_table_and_no_secret_of_the_catalog(self) -> None:
        catalog = VendingCatalog()
        entries, raw = (FileStore.of(catalog.load_table(("shop", name))) for name in ("entries", "raw_envelopes"))
        assert sent(entries).properties["s3.access-key-id"] == "entries-1"
        assert sent(raw).properties["s3.access-key-id"] == "raw_envelopes-2"
        assert "token" not in sent(raw).properties
        assert sent(raw).credentials is None, "a worker asks no catalog"
        assert sent(raw).vended

    def test_nothing_shows_them(self) -> None:
        store = FileStore.of(VendingCatalog().load_table(("shop", "entries")))
        target = WriteTarget("s3://b/t", b"", (), "run", store)
        for one in (store, sent(store), target, sent(target.store)):
            assert SECRET not in f"{one!r} {one}"

    def test_keys_of_the_configuration_are_never_asked_for_again(self, clock: list[float]) -> None:
        catalog = VendingCatalog()
        catalog.properties |= {"s3.access-key-id": "own", "s3.secret-access-key": SECRET}
        table = cast("Table", _Table(("shop", "entries"), catalog, dict(catalog.properties)))
        store = FileStore.of(table)
        clock[0] = 1e6
        assert sent(store).properties["s3.access-key-id"] == "own"
        assert (catalog.loads, store.credentials, store.vended) == (0, None, False)

    def test_they_are_renewed_before_they_expire_once_for_all_tasks(self, clock: list[float]) -> None:
        catalog = VendingCatalog(lasts=RENEW_BEFORE + timedelta(minutes=1))
        store = FileStore.of(catalog.load_table(("shop", "entries")))
        assert sent(store).properties["s3.access-key-id"] == "entries-1"
        catalog.lasts = timedelta(minutes=5)  # less than a task may need; nothing longer is to be had
        store = FileStore.of(catalog.load_table(("shop", "entries")))
        clock[0] += 61
        assert [sent(store).properties["s3.access-key-id"] for _ in range(3)] == ["entries-3"] * 3
        clock[0] += 61
        assert sent(store).properties["s3.access-key-id"] == "entries-4"

    def test_keys_of_unknown_expiry_are_renewed_after_a_while(self, clock: list[float]) -> None:
        catalog = VendingCatalog(lasts=None)
        store = FileStore.of(catalog.load_table(("shop", "entries")))
        clock[0] += RENEW_BEFORE.total_seconds() - 1
        assert sent(store).properties["s3.access-key-id"] == "entries-1"
        clock[0] += 2
        assert sent(store).properties["s3.access-key-id"] == "entries-2"

    def test_a_catalog_that_is_away_for_a_moment_is_asked_again(
        self, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contention, "GIVE_UP_AFTER", 20.0)
        catalog = VendingCatalog(lasts=None)
        store = FileStore.of(catalog.load_table(("shop", "entries")))
        clock[0], catalog.away = 3600.0, 3
        assert sent(store).properties["s3.access-key-id"] == "entries-2"

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        passed = [0.0]
        real = VendedCredentials.__init__
        monkeypatch.setattr(
            VendedCredentials, "__init__", lambda one, *given: real(one, *given, clock=lambda: passed[0])
        )
        return passed


@pytest.mark.parametrize(
    ("expires", "age", "renewed"),
    [
        (NOW + timedelta(hours=1), 0.0, False),
        (NOW + timedelta(hours=1), 3000.0, False),
        (NOW + timedelta(minutes=14), 3000.0, True),
        (NOW + timedelta(minutes=14), 59.0, False),
        (NOW - timedelta(hours=9), 59.0, False),
        (NOW - timedelta(hours=9), 60.0, True),
        (None, 899.0, False),
        (None, 900.0, True),
    ],
)
def test_when_keys_are_renewed(expires: datetime | None, age: float, *, renewed: bool) -> None:
    assert is_renewal_due(expires, now=NOW, age=age) is renewed


@pytest.mark.parametrize(
    ("properties", "expires"),
    [
        ({"s3.session-token-expires-at-ms": "1767614400000"}, NOW),
        ({"gcs.oauth2.token-expires-at": "1767614400000"}, NOW),
        ({"adls.sas-token-expires-at-ms.account": "1767614400000"}, NOW),
        ({"s3.session-token-expires-at-ms": "1767618000000", "gcs.oauth2.token-expires-at": "1767614400000"}, NOW),
        ({"s3.session-token-expires-at-ms": "soon"}, None),
        ({"s3.session-token-expires-at-ms": "9" * 40}, None),
        ({"s3.session-token-expires-at-ms": "-1"}, None),
        ({"s3.session-token-expires-at-ms": "١٢"}, None),
        ({"s3.expires-atlas": "1767614400000"}, None),
        ({}, None),
    ],
)
def test_when_keys_expire(properties: dict[str, str], expires: datetime | None) -> None:
    assert expiry_of(properties) == expires


class TestExpiredKeys:
    expired = FileStore("shop.entries", {"s3.session-token-expires-at-ms": "1767614400000"}, vended=True)

    @pytest.mark.parametrize(
        ("store", "error"),
        [
            (expired, OSError("AWS Error ACCESS_DENIED during PutObject operation")),
            (FileStore("shop.entries", {}, vended=True), OSError("ExceptionName: ExpiredToken")),
            (FileStore("shop.entries", {}, vended=True), OSError("Message: The provided token has expired.")),
            (FileStore("shop.entries", {}, vended=True), pa.ArrowInvalid("TokenExpired")),
        ],
    )
    def test_one_sentence_says_so_and_the_run_may_be_repeated(self, store: FileStore, error: Exception) -> None:
        said = r"vended for the files of shop\.entries have expired"
        with pytest.raises(ExpiredCredentialsError, match=said) as raised, store.explained():
            raise error
        assert raised.value.retriable
        assert raised.value.__suppress_context__, "texts of stores may hold requests"
        assert not concerns_table(raised.value), "no table is paused for it"
        assert pickle.loads(pickle.dumps(raised.value)).table == "shop.entries"

    @pytest.mark.parametrize(
        ("store", "error"),
        [
            (FileStore("shop.expired", {"s3.x": "y"}, vended=True), FileNotFoundError("s3://b/shop/expired_orders")),
            (FileStore("shop.entries", dict(expired.properties)), OSError("ExpiredToken")),
            (expired, LakeTableError("shop.entries", "it has no column")),
            (FileStore(), OSError("disk full")),
        ],
    )
    def test_other_errors_stay(self, store: FileStore, error: Exception) -> None:
        with pytest.raises(type(error)) as raised, store.explained():
            raise error
        assert raised.value is error

    def test_readers_and_writers_say_it(self, tmp_path: Path) -> None:
        with pytest.raises(ExpiredCredentialsError):
            next(read_batches(self.expired, [str(tmp_path / "gone.parquet")], ["x"]))
        (tmp_path / "data").write_text("no folder")
        schema = pa.schema([("x", pa.int64())])
        target = WriteTarget(str(tmp_path), schema.serialize().to_pybytes(), (), "run", self.expired)
        with TableWriter(target) as writer:
            writer.write(pa.RecordBatch.from_pydict({"x": [1]}, schema))
            with pytest.raises(ExpiredCredentialsError):
                writer.close()


def test_every_task_holds_stores_and_no_bare_properties() -> None:
    """What holds keys is a FileStore: nothing else of a task may be a mapping from texts to texts."""
    modules = [importlib.import_module(f"dts_assets.flows.{one.name}") for one in pkgutil.iter_modules(flows.__path__)]
    tasks: set[type[Any]] = {
        kind
        for module in modules
        for name, kind in vars(module).items()
        if name.endswith(("Task", "MergedTable")) and isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }
    assert len(tasks) >= 6
    held = {(kind.__name__, one.name): str(one.type) for kind in tasks for one in dataclasses.fields(kind)}
    assert [one for one, kind in held.items() if "Mapping[str, str]" in kind or "dict[str, str]" in kind] == []
    assert sum(kind == "FileStore" for kind in held.values()) >= 5


def test_a_store_that_is_not_amazons_is_prepared_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "to be put back")
    monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION")
    monkeypatch.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_supported")
    catalog = VendingCatalog()
    catalog.properties["s3.endpoint"] = "https://obs.cn-north-4.myhuaweicloud.com"
    FileStore.of(catalog.load_table(("shop", "entries")))
    assert os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
    assert os.environ["AWS_RESPONSE_CHECKSUM_VALIDATION"] == "when_supported", "the user's own stays"
