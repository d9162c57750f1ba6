"""Cases of documents of DDS (MongoDB) by DRS JSON: types, updates by paths, ids, copies, collections that go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dts_emulator.conformance.expected import Built, Case, ExpectedColumn, ExpectedTable, TextRow
from dts_emulator.conformance.formats import DRS
from dts_emulator.drs.generated_documents import Document, GeneratedDocuments
from dts_emulator.messages.message import Message

_RULE = f"{DRS}, table 3; MongoDB manual, Extended JSON v2 and update operators"
_COLUMNS = (ExpectedColumn("_id", "json"), ExpectedColumn("document", "json"))
_ORDERS, _BAG = ("shop", "orders"), ("shop", "bag")
_COMMANDS = "that commands come as change streams tell them: the page shows none"
_CHANGES = 150

Tell = Callable[["DocumentStory"], None]


def number(value: int) -> Document:
    """Return an integer of 32 bits in canonical Extended JSON."""
    return {"$numberInt": str(value)}


class DocumentStory:
    """The messages so far, and the documents that they leave, by collection and the text of ``_id``."""

    def __init__(self) -> None:
        self.source = GeneratedDocuments(Random(1), collections={})
        self.messages: list[Message] = []
        self.collections: dict[tuple[str, str], dict[str, Document]] = {}

    def insert(self, place: tuple[str, str], identity: Any, **fields: Any) -> None:
        """Insert a document."""
        self._held(place)[json.dumps(identity)] = document = {"_id": identity, **fields}
        self._tell(place, "INSERT", "insert", document, None)

    def replace(self, place: tuple[str, str], identity: Any, **fields: Any) -> None:
        """Replace the document with an id."""
        self._held(place)[json.dumps(identity)] = document = {"_id": identity, **fields}
        self._tell(place, "UPDATE", "replace", document, {"_id": identity})

    def update(
        self, place: tuple[str, str], identity: Any, then: Document | None, *, sets: Mapping[str, Any] | None = None,
        unsets: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Update a document by paths. ``then`` is the document afterwards, None for one that no message has told."""
        if then is not None:
            self._held(place)[json.dumps(identity)] = {"_id": identity, **then}
        update = {"$set": sets} if sets else {}
        self._tell(
            place, "UPDATE", "update", update | ({"$unset": dict.fromkeys(unsets, True)} if unsets else {}),
            {"_id": identity},
        )  # fmt: skip

    def delete(self, place: tuple[str, str], identity: Any) -> None:
        """Delete a document."""
        del self._held(place)[json.dumps(identity)]
        self._tell(place, "DELETE", "doc", {"_id": identity}, None)

    def drop(self, place: tuple[str, str]) -> None:
        """Drop a collection."""
        self._held(place).clear()
        self._tell(place, "DDL", "drop", {}, None)

    def rename(self, place: tuple[str, str], other: tuple[str, str]) -> None:
        """Give a collection another name, and drop the collection that had it."""
        self.collections[other] = self._held(place)
        self.collections[place] = {}
        self._tell(place, "DDL", "rename", {"to": {"db": other[0], "coll": other[1]}}, None)

    def again(self, count: int) -> None:
        """Send the last messages once more, in their order, as a task does that goes on."""
        last = self.messages[-1].timestamp
        for one in self.messages[-count:]:
            self._send(replace(one, timestamp=last))

    def _held(self, place: tuple[str, str]) -> dict[str, Document]:
        return self.collections.setdefault(place, {})

    def _tell(self, place: tuple[str, str], *told: Any) -> None:
        self._send(self.source.tell(place, *told))

    def _send(self, message: Message) -> None:
        self.messages.append(replace(message, offset=len(self.messages)))


@dataclass(frozen=True, slots=True)
class DocumentCase:
    """A story of collections."""

    name: str
    title: str
    trap: str
    tell: Tell
    has_copies: bool = False
    assumes: str | None = None

    def case(self) -> Case:
        """Return the case in the format that tells documents."""
        return Case(f"dds_{self.name}", self.title, self.trap, _RULE, ("drs-json",), self._built)

    def _built(self, name: str) -> Built:
        story = DocumentStory()
        self.tell(story)
        return Built(
            tuple(story.messages), _tables(story.collections), "MongoDB", has_copies=self.has_copies,
            assumes=self.assumes, judged_by="a model of the documents",
        )  # fmt: skip


def _tables(collections: Mapping[tuple[str, str], Mapping[str, Document]]) -> tuple[ExpectedTable, ...]:
    return tuple(
        ExpectedTable(database, "", name, _COLUMNS, ("_id",), tuple(map(_row, documents.values())))
        for (database, name), documents in collections.items()
    )


def _row(document: Document) -> TextRow:
    return {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in (("_id", document["_id"]), ("document", document))
    }


def _types(story: DocumentStory) -> None:
    story.insert(
        _ORDERS, {"$oid": "64650cf67dc36a464e76e583"}, small=number(-5), large={"$numberLong": "9223372036854775807"},
        double={"$numberDouble": "5.0"}, price={"$numberDecimal": "1.50"}, at={"$date": {"$numberLong": "-62135596800000"}},
        raw={"$binary": {"base64": "AAH/", "subType": "00"}}, stamp={"$timestamp": {"t": 4294967295, "i": 1}},
        pattern={"$regularExpression": {"pattern": "^a/b", "options": "i"}}, least={"$minKey": 1}, nothing=None, yes=True,
        empty="", none=[], deep={"a": [{"b": []}, {}]},
    )  # fmt: skip
    texts = [
        'ObjectId("64650cf67dc36a464e76e583")',
        "NumberLong(5)",
        'say "no", 5.0',
        "new Date(0)",
        "茶\n\\",
        "{ $set: 1 }",
    ]
    story.insert(_ORDERS, "texts that look like calls", texts=texts)
    story.insert(_BAG, number(1), **{"a.b": "a dot in a name", "": "no name"})


def _paths(story: DocumentStory) -> None:
    story.insert(_ORDERS, number(1), a=[number(1), number(2)], b={"0": "x"}, c="old")
    story.update(
        _ORDERS, number(1), {"a": [number(5), number(2)], "b": {"0": "y"}, "d": {"e": {"f": None}}},
        sets={"a.0": number(5), "b.0": "y", "d.e.f": None}, unsets=("c",),
    )  # fmt: skip
    story.update(
        _ORDERS, number(1), {"a": [number(5), number(2), {"n": True}], "b": {}, "d": "whole"},
        sets={"a.2": {"n": True}, "d": "whole"}, unsets=("b.0",),
    )  # fmt: skip
    story.update(
        _ORDERS, number(1), {"a": [number(5), number(2), {"n": False, "m": []}], "b": {}, "d": "whole"},
        sets={"a.2.n": False, "a.2.m": []},
    )  # fmt: skip


def _replaced(story: DocumentStory) -> None:
    for one in range(1, 5):
        story.insert(_ORDERS, number(one), a=number(one), b="first")
    story.replace(_ORDERS, number(1), c="second")
    story.delete(_ORDERS, number(2))
    story.insert(_ORDERS, number(2), d=[])
    story.delete(_ORDERS, number(3))
    story.replace(_ORDERS, number(9), e="of a document that is older than the task")


def _ids(story: DocumentStory) -> None:
    ids = [number(5), "5", {"$oid": f"{5:024x}"}, f"{5:024x}", {"a": number(5)}, {"$date": {"$numberLong": "5"}}, True]
    for place, identity in enumerate(ids):
        story.insert(_ORDERS, identity, number=number(place))
    story.update(_ORDERS, "5", {"text": "of a text"}, sets={"text": "of a text"}, unsets=("number",))
    story.delete(_ORDERS, {"$oid": f"{5:024x}"})
    story.replace(_ORDERS, {"a": number(5)}, text="of a document")


def _unseen(story: DocumentStory) -> None:
    story.insert(_ORDERS, number(1), a="x")
    story.update(_ORDERS, number(7), None, sets={"a": "y"})
    story.update(_ORDERS, number(8), None, unsets=("a",))
    story.replace(_ORDERS, number(8), a="whole")
    story.update(_ORDERS, number(8), {"a": "whole", "b": None}, sets={"b": None})


def _copies(story: DocumentStory) -> None:
    story.insert(_ORDERS, number(1), list=[])
    for place in range(3):
        items = [number(one) for one in range(place + 1)]
        story.update(_ORDERS, number(1), {"list": items}, sets={f"list.{place}": number(place)})
    story.insert(_BAG, "gone")
    story.delete(_BAG, "gone")
    story.again(4)
    story.replace(_ORDERS, number(1), list="replaced")
    story.again(6)


def _commands(story: DocumentStory) -> None:
    for place in (_ORDERS, _BAG, ("other", "orders")):
        story.insert(place, number(1), of=".".join(place))
    story.drop(_BAG)
    story.insert(_BAG, number(2), of="the new bag")
    story.rename(_ORDERS, _BAG)
    story.insert(_ORDERS, number(3), of="new orders")
    story.update(_BAG, number(1), {"of": "renamed"}, sets={"of": "renamed"})


def _generated(name: str) -> Built:
    source = GeneratedDocuments(Random(1), partitions=2, commands=())
    messages = tuple(source.messages(_CHANGES))
    known = {place: {json.dumps(one["_id"]): one for one in source.known(place)} for place in source.collections}
    return Built(
        messages, _tables(known), "MongoDB", partitions=2, has_copies=True, judged_by="a model of the documents"
    )  # fmt: skip


DOCUMENT_CASES: tuple[Case, ...] = (
    *(
        one.case()
        for one in (
            DocumentCase(
                "documents_of_all_types", "Values of all BSON types, and texts that look like them",
                "a text becomes a value, a number changes its type, or a name with a dot becomes a path", _types,
            ),
            DocumentCase(
                "updates_by_paths", "$set and $unset with paths into objects and arrays",
                "the update becomes the document, or 0 is a name in an array", _paths,
            ),
            DocumentCase(
                "replaced_and_deleted", "Documents are replaced, deleted and inserted again",
                "fields of before stay, or a replacement of an unknown document is lost", _replaced,
            ),
            DocumentCase(
                "ids_of_several_types", "The number 5, the text 5 and an ObjectId are three ids", "two documents become one",
                _ids,
            ),
            DocumentCase(
                "update_of_a_document_never_seen", "An update of a document that is older than the task",
                "a row is made of the update alone", _unseen,
            ),
            DocumentCase(
                "redelivery_after_a_restart", "A task sends its last messages once more, updates and a replacement among them",
                "an update is applied to the document that replaced its own, or a deleted document stands again",
                _copies, has_copies=True,
            ),
            DocumentCase(
                "collections_that_go", "A collection is dropped, and another one takes its name",
                "documents of a dropped collection stay, or stay under the old name", _commands, assumes=_COMMANDS,
            ),
        )
    ),
    Case(
        "dds_random_changes", "A seeded workload in two Kafka partitions, with copies and documents older than the task",
        "what none of the other cases shows", _RULE, ("drs-json",), _generated,
    ),
)  # fmt: skip
