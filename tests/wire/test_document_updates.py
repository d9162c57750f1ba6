"""Updates of documents: what MongoDB's manual says of paths, and another library as the judge of random updates."""

from __future__ import annotations

import copy
import json
from typing import Any

import mongomock
import pytest
from bson import json_util
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import WriteError

from dts_assets.wire.documents.shell_syntax import Unreadable, document_of
from dts_assets.wire.documents.updates import checked_update, updated
from tests.tiers import examples

CASES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "a field is set": ('{"a": 1}', '{"$set": {"a": 2}}', '{"a": 2}', ()),
    "a field comes behind the others": ('{"a": 1}', '{"$set": {"b": 2, "0": 3}}', '{"a": 1, "b": 2, "0": 3}', ()),
    "a field goes": ('{"a": 1, "b": 2}', '{"$unset": {"a": true}}', '{"b": 2}', ()),
    "a field gets another name": (
        '{"c1": "a"}',
        '{"$unset": {"c1": true}, "$set": {"column1": "a"}}',
        '{"column1": "a"}',
        (),
    ),
    "a path of documents": ('{"a": {"b": {"c": 1}}}', '{"$set": {"a.b.c": 2}}', '{"a": {"b": {"c": 2}}}', ()),
    "documents are made on the way": ('{"x": 1}', '{"$set": {"a.b.0": 2}}', '{"x": 1, "a": {"b": {"0": 2}}}', ()),
    "an index of an array": ('{"a": [1, 2]}', '{"$set": {"a.0": 3}}', '{"a": [3, 2]}', ()),
    "a number that is a field": ('{"a": {"0": 1}}', '{"$set": {"a.0": 3}}', '{"a": {"0": 3}}', ()),
    "an element is added": ('{"a": [1]}', '{"$set": {"a.1": 2}}', '{"a": [1, 2]}', ()),
    "an array is shorter than the index": ('{"a": [1]}', '{"$set": {"a.3": 2}}', '{"a": [1, null, null, 2]}', ("a.3",)),
    "a field of an element": ('{"a": [{"b": 1}]}', '{"$set": {"a.0.b": 2}}', '{"a": [{"b": 2}]}', ()),
    "a field of an element that is not there": ('{"a": []}', '{"$set": {"a.1.b": 2}}', '{"a": [null, {}]}', ("a.1.b",)),
    "an array in an array": ('{"a": [[1], [2]]}', '{"$set": {"a.1.0": 3}}', '{"a": [[1], [3]]}', ()),
    "an element goes": ('{"a": [1, 2]}', '{"$unset": {"a.0": true}}', '{"a": [null, 2]}', ()),
    "a path through a number": ('{"a": 1}', '{"$set": {"a.b": 2}}', '{"a": 1}', ("a.b",)),
    "a path through a moment": ('{"a": Timestamp(1, 2)}', '{"$set": {"a.t": 3}}', '{"a": Timestamp(1, 2)}', ("a.t",)),
    "a path through a reference": (
        '{"a": {"$ref": "c", "$id": 1}}',
        '{"$set": {"a.$id": 3}}',
        '{"a": {"$ref": "c", "$id": 3}}',
        (),
    ),
    "a path through null": ('{"a": null}', '{"$set": {"a.b": 2}}', '{"a": null}', ("a.b",)),
    "a name in an array": ('{"a": [1]}', '{"$set": {"a.b": 2}}', '{"a": [1]}', ("a.b",)),
    "a number with a zero in front": ('{"a": [1]}', '{"$set": {"a.00": 2}}', '{"a": [1]}', ("a.00",)),
    "a number of other digits": ('{"a": [1]}', '{"$set": {"a.١": 2}}', '{"a": [1]}', ("a.١",)),
    "an index beyond all arrays": ('{"a": [1]}', '{"$set": {"a.99999999": 2}}', '{"a": [1]}', ("a.99999999",)),
    "what goes is not there": ('{"a": 1}', '{"$unset": {"b": true, "a.c": true}}', '{"a": 1}', ("b", "a.c")),
    "a document that came with the update": (
        "{}",
        '{"$set": {"a": {"b": 1}, "a.c": 2}}',
        '{"a": {"b": 1, "c": 2}}',
        (),
    ),
    "a path of more levels than a document has": (
        '{"b": 1}',
        f'{{"$unset": {{"{"b." * 200}": true}}}}',
        '{"b": 1}',
        ("b." * 200,),
    ),
    "a whole document": ('{"a": {"b": 1}}', '{"$set": {"a": {"c": 2}}}', '{"a": {"c": 2}}', ()),
}


@pytest.mark.parametrize("what", CASES)
def test_an_update_changes_a_document_as_the_manual_says(what: str) -> None:
    before, update, after, doubts = CASES[what]
    document = document_of(before)
    told = document_of(update)
    kept = copy.deepcopy((document, told))
    found = updated(document, told)
    assert found.document == document_of(after)
    assert [*found.document] == [*document_of(after)], "the order of fields"
    assert found.doubts == doubts
    assert (document, told) == kept, "the document or the update that was given is another one"


def test_arrays_are_filled_up_as_far_as_a_document_has_room() -> None:
    """An update of 30 bytes a path made 1.5 million elements of each."""
    empty: dict[str, Any] = {f"a{n}": [] for n in range(9)}
    found = updated(empty, {"$set": {f"a{n}.1000000": 1 for n in range(9)}})
    assert sum(len(one) for one in found.document.values()) == 1_000_001
    assert found.doubts == tuple(f"a{n}.1000000" for n in range(9))
    deep = updated({}, {"$set": {"a" + ".a" * 300: 1}})
    assert deep.doubts


@pytest.mark.parametrize("text", ['{"$inc": {"a": 1}}', '{"a": 1}', "{}", '{"$set": 5}', '{"$set": {}, "$push": {}}'])
def test_another_operator_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        checked_update(document_of(text))


NAMES = st.sampled_from(["a", "b", "c", "0", "1", "2"])
LEAVES = st.one_of(st.integers(0, 9), st.none(), st.text("xy", max_size=2))
INNER = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), INNER, max_size=3)


@st.composite
def updates(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Updates of paths of which none is another one's beginning, as change streams tell them."""
    paths: list[str] = []
    for path in draw(st.lists(st.lists(NAMES, min_size=1, max_size=3).map(".".join), min_size=1, max_size=4)):
        if not any(f"{one}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one}.") for one in paths):
            paths.append(path)
    removed = draw(st.integers(0, len(paths)))
    made: dict[str, dict[str, Any]] = {}
    if paths[removed:]:
        made["$set"] = {path: draw(INNER) for path in paths[removed:]}
    if paths[:removed]:
        made["$unset"] = dict.fromkeys(paths[:removed], True)
    return made


def canonical(value: Any) -> Any:
    return json.loads(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS))


def _is_element(value: Any, names: list[str]) -> bool:
    """Whether a path leads to an element of an array."""
    for name in names[:-1]:
        value = (
            value.get(name) if isinstance(value, dict) else None if not _has_element(value, name) else value[int(name)]
        )
    return _has_element(value, names[-1])


def _has_element(value: Any, name: str) -> bool:
    return isinstance(value, list) and name.isdigit() and int(name) < len(value)


@examples(500)
@given(DOCUMENTS, updates())
def test_random_updates_are_those_of_another_library(
    document: dict[str, Any], update: dict[str, dict[str, Any]]
) -> None:
    collection: Any = mongomock.MongoClient()["d"]["c"]
    collection.insert_one({"_id": 1, **copy.deepcopy(document)})
    found = updated(canonical({"_id": 1, **document}), canonical(update))
    if any(_is_element(document, path.split(".")) for path in update.get("$unset", ())):
        return  # the manual says null; mongomock leaves the element
    try:
        collection.update_one({"_id": 1}, copy.deepcopy(update))
    except (WriteError, TypeError, ValueError, AttributeError, IndexError):
        return  # the path does not fit: no server tells such an update
    if not found.doubts:
        assert found.document == canonical(collection.find_one({"_id": 1}))
