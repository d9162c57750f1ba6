"""Effects fail where a real Spark runs the tasks, and where a real REST catalog and S3 hold the lake: a sample of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from requests import Request, Response, Session
from requests.exceptions import ConnectionError as CutConnection

from tests.effects.effects import Effects, Way
from tests.effects.every import SAMPLE, cases_of, rest_ground, sample, sampled
from tests.effects.grounds import OnSpark
from tests.effects.over_http import catch_requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dts_assets.store.catalog import LakeLocation

SEED = 1
CATALOG = "http://127.0.0.1:1"
ASKED = (("GET", "/v1/namespaces/shop/tables/raw"), ("POST", "/v1/namespaces/shop%1Fchangelog/tables/orders"))


@pytest.mark.long
@pytest.mark.spark
def test_effects_fail_where_spark_merges(spark: SparkSession, spark_lake: LakeLocation, tmp_path: Path) -> None:
    effects, cases, wrong = sample(tmp_path, OnSpark(tmp_path, spark, spark_lake), SAMPLE, SEED)
    assert effects > 200
    assert cases == SAMPLE
    assert wrong == []


@pytest.mark.long
def test_effects_fail_on_a_rest_catalog_and_s3(tmp_path: Path) -> None:
    with rest_ground(tmp_path) as ground:
        effects, cases, wrong = sample(tmp_path, ground, SAMPLE, SEED)
    assert effects > 200
    assert cases == SAMPLE
    assert wrong == []


def test_a_sample_has_every_kind_of_effect_in_every_way() -> None:
    names = [*(["load_table a"] * 200), "commit_table a", "merge by Spark of a", "write a metadata.json"]
    kinds = {(names[number - 1], way) for number, way in cases_of(names)}
    found = sampled(names, 20, SEED)
    assert len(found) == len(set(found)) == 20
    assert {(names[number - 1], way) for number, way in found} == kinds
    assert sampled(names, 20, SEED + 1) != found


@pytest.mark.parametrize("way", [Way.REFUSED, Way.UNHEARD, Way.CUT])
def test_a_request_fails_as_gateways_have_it(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def server(_: Session, request: Any, **__: Any) -> Response:
        done.append(str(request.url))
        answer = Response()
        answer.status_code = 200
        return answer

    monkeypatch.setattr(Session, "send", server)
    effects = Effects(2, way, lands_after=2)
    catch_requests(effects, monkeypatch, CATALOG)

    def ask(method: str, path: str, server: str = CATALOG) -> int:
        with Session() as session:
            return session.send(session.prepare_request(Request(method, f"{server}{path}"))).status_code

    commit = f"{CATALOG}{ASKED[1][1]}"
    assert ask(*ASKED[0]) == 200
    if way is Way.CUT:
        with pytest.raises(CutConnection):
            ask(*ASKED[1])
    else:
        assert ask(*ASKED[1]) >= 400
    assert effects.names == ["load_table shop.raw", "commit_table shop.changelog.orders"]
    assert effects.name == effects.names[1]
    assert (commit in done) == (way is Way.UNHEARD)
    assert ask("GET", "/elsewhere", "http://127.0.0.1:2") == 200
    assert len(effects.names) == 2, "another server's requests do not count"
    for _ in range(2):
        assert ask(*ASKED[0]) == 200
    assert (commit in done) == (way is not Way.REFUSED)
