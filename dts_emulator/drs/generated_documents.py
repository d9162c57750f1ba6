"""Messages of DRS JSON from DDS (MongoDB), made by rules of the vendor's page and of MongoDB's manual.

No such server is at hand. A random workload changes documents that a model in memory holds. "Kafka Message Format"
(drs_03_0052), table 3: an insert and a replace carry the document, an update its ``$set`` and ``$unset`` with the ``_id`` in
``where``, a delete the ``_id`` in ``value``. Documents stand in the syntax of MongoDB's shell. Drops and new names are as change
streams tell them; the page does not show them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dts_emulator.messages.message import Message

Document = dict[str, Any]
"""A document in canonical Extended JSON: ``{"_id": {"$numberInt": "5"}}``."""

COMMANDS = ("drop", "rename", "dropDatabase")

_START_MS = 1_767_571_200_000
_STEP_MS = 60_000
_ES_BEHIND_MS = 28_952_000
"""The page's samples have an ``es`` that lies about eight hours before ``clusterTime``."""

_CALLS = {"$numberLong": "NumberLong", "$numberDecimal": "NumberDecimal", "$oid": "ObjectId"}


def shell_text(value: Any) -> str:
    """Return a canonical value in the syntax of the shell: ``NumberLong("5")``."""
    match value:
        case {"$numberInt": text}:
            return str(text)
        case {"$numberDouble": text}:
            return str(text)
        case {"$date": {"$numberLong": text}}:
            return f"new Date({text})"
        case {"$binary": {"base64": data, "subType": kind}}:
            return f'BinData({int(kind, 16)}, "{data}")'
        case {"$timestamp": {"t": seconds, "i": increment}}:
            return f"Timestamp({seconds}, {increment})"
        case {"$regularExpression": {"pattern": pattern, "options": options}}:
            inside = pattern.replace("/", r"\/")
            return f"/{inside}/{options}"
        case {"$minKey": 1}:
            return "MinKey"
        case dict() if len(value) == 1 and (call := _CALLS.get(next(iter(value)))):
            return f"{call}({json.dumps(next(iter(value.values())))})"
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}: {shell_text(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(shell_text, value)) + "]"
    return json.dumps(value)


@dataclass
class GeneratedDocuments:
    """A source whose collections a random workload changes.

    ``collections`` are its documents by database and collection, each by the text of its ``_id``. ``unseen`` has those of which
    no message has told the whole document, because they are older than the task.
    """

    random: Random
    partitions: int = 1
    commands: tuple[str, ...] = COMMANDS
    collections: dict[tuple[str, str], dict[str, Document]] = field(
        default_factory=lambda: {("shop", "orders"): {}, ("shop", "a.b$c"): {}, ("other", "orders"): {}}
    )
    unseen: set[tuple[tuple[str, str], str]] = field(default_factory=set)
    number: int = 0
    _offsets: dict[int, int] = field(default_factory=dict)
    _sent: list[dict[str, Any]] = field(default_factory=list)

    def messages(self, count: int) -> Iterator[Message]:
        """Yield the messages of so many changes; some come twice."""
        for _ in range(count):
            if self.commands and self.random.random() < 0.02:
                yield self._command()
                continue
            place = self.random.choice([*self.collections])
            yield self._change(place, self.collections[place])
            if self.random.random() < 0.05:
                yield self._again()

    def known(self, place: tuple[str, str]) -> list[Document]:
        """Return the documents of a collection that the messages tell."""
        return [document for key, document in self.collections[place].items() if (place, key) not in self.unseen]

    def _change(self, place: tuple[str, str], documents: dict[str, Document]) -> Message:
        random, identity = self.random, self._id()
        key = json.dumps(identity)
        if key not in documents:
            documents[key] = {"_id": identity, **self._fields(3)}
            if random.random() < 0.05:  # it was there before the task
                self.unseen.add((place, key))
            else:
                return self.tell(place, "INSERT", "insert", documents[key], None)
        elif random.random() < 0.15:
            del documents[key]
            self.unseen.discard((place, key))
            return self.tell(place, "DELETE", "doc", {"_id": identity}, None)
        if random.random() < 0.3:
            documents[key] = {"_id": identity, **self._fields(3)}
            self.unseen.discard((place, key))
            return self.tell(place, "UPDATE", "replace", documents[key], {"_id": identity})
        return self.tell(place, "UPDATE", "update", self._update(documents[key]), {"_id": identity})

    def _command(self) -> Message:
        random = self.random
        there = [place for place, documents in self.collections.items() if documents]
        if not there:  # no command changes a collection that is not there
            return self._change(place := random.choice([*self.collections]), self.collections[place])
        place, kind = random.choice(there), random.choice(self.commands)
        if kind == "drop":
            self._forget(place)
            return self.tell(place, "DDL", "drop", {}, None)
        if kind == "dropDatabase":
            for one in [*self.collections]:
                if one[0] == place[0]:
                    self._forget(one)
            return self.tell((place[0], ""), "DDL", "dropDatabase", {}, None)
        other = random.choice([one for one in self.collections if one != place])
        moved = self.collections[place]
        unseen = {key for one, key in self.unseen if one == place}
        self._forget(place)
        self._forget(other)
        self.collections[other] = moved
        self.unseen |= {(other, key) for key in unseen}
        return self.tell(place, "DDL", "rename", {"to": {"db": other[0], "coll": other[1]}}, None)

    def _forget(self, place: tuple[str, str]) -> None:
        self.collections[place] = {}
        self.unseen = {one for one in self.unseen if one[0] != place}

    def _update(self, document: Document) -> Mapping[str, Any]:
        """Change some fields of a document, and return the update that says so."""
        random, sets, unsets = self.random, dict[str, Any](), dict[str, Any]()
        for _ in range(random.randrange(1, 4)):
            path, holder, name = self._place_in(document)
            if any(
                path == one or path.startswith(f"{one}.") or one.startswith(f"{path}.") for one in {**sets, **unsets}
            ):
                continue
            if isinstance(holder, dict) and name in holder and random.random() < 0.3:
                del holder[name]
                unsets[path] = True
                continue
            value = self._value(2)
            sets[path] = value
            if isinstance(holder, list) and name == len(holder):
                holder.append(value)
            else:
                holder[name] = value
        if not sets and not unsets:
            value = sets["n"] = self._value(1)
            document["n"] = value
        # Values of an update are no parts of the document: later updates change the document alone.
        update: dict[str, Any] = {"$unset": unsets} if unsets else {}
        return json.loads(json.dumps(update | ({"$set": sets} if sets else {})))  # type: ignore[no-any-return]

    def _place_in(self, document: Document) -> tuple[str, Any, Any]:
        """Return a path, the document or array that it leads to, and a name or number there."""
        random, path = self.random, list[str]()
        holder: Any = document
        while True:
            inner = [
                (name, one)
                for name, one in (holder.items() if isinstance(holder, dict) else enumerate(holder))
                if isinstance(one, list) or (isinstance(one, dict) and not next(iter(one), "").startswith("$"))
            ]
            if not inner or random.random() < 0.4:
                break
            name, holder = random.choice(inner)
            path.append(str(name))
        field_name: Any = random.randrange(len(holder) + 1) if isinstance(holder, list) else random.choice("abcdn0")
        return ".".join([*path, str(field_name)]), holder, field_name

    def _id(self) -> Any:
        number = self.random.randrange(24)
        kinds = [
            {"$oid": f"{number:024x}"}, {"$numberInt": str(number)}, str(number), {"$numberLong": str(number + (1 << 40))},
            {"a": {"$numberInt": str(number)}, "b": "x"}, {"$date": {"$numberLong": str(number * 1000)}},
        ]  # fmt: skip
        return kinds[number % len(kinds)]

    def _fields(self, depth: int) -> Document:
        names = self.random.sample("abcdn0", self.random.randrange(5))
        return {name: self._value(depth) for name in names}

    def _value(self, depth: int) -> Any:
        random = self.random
        if depth and random.random() < 0.4:
            return (
                self._fields(depth - 1)
                if random.random() < 0.5
                else [self._value(depth - 1) for _ in range(random.randrange(4))]
            )
        return random.choice(
            [
                {"$numberInt": str(random.randrange(-5, 5))}, {"$numberLong": str(random.randrange(1 << 60))},
                {"$numberDouble": repr(random.random())}, {"$numberDecimal": "1.50"}, None, True, "", 'te"xt ObjectId("x") 茶\n',
                {"$date": {"$numberLong": str(random.randrange(-(10**12), 10**12))}}, {"$oid": f"{random.randrange(9):024x}"},
                {"$binary": {"base64": "AAH/", "subType": "00"}}, {"$timestamp": {"t": 5, "i": random.randrange(9)}},
                {"$regularExpression": {"pattern": "^a.*", "options": "i"}}, {"$minKey": 1},
            ]
        )  # fmt: skip

    def tell(
        self,
        place: tuple[str, str],
        operation: str,
        record: str,
        value: Mapping[str, Any],
        where: Mapping[str, Any] | None,
    ) -> Message:
        """Return the message of a change, whose document or update is ``value``."""
        self.number += 1
        at = _START_MS + self.number * _STEP_MS
        fields = {
            "id": self.number * 3, "op": operation, "dbType": "MongoDB", "db": place[0], "coll": place[1] or None,
            "value": shell_text(value), "where": None if where is None else shell_text(where), "recordType": record,
            "extra": record, "es": at - _ES_BEHIND_MS, "ts": at + 5, "clusterTime": f"{at // 1000}:{self.number % 3 + 1}",
        }  # fmt: skip
        self._sent.append(fields)
        return self._sent_at(fields, at)

    def _again(self) -> Message:
        """Return one of the last messages once more, as a task sends it when it goes on."""
        fields = self.random.choice(self._sent[-5:])
        return self._sent_at({**fields, "ts": fields["ts"] + 900}, _START_MS + self.number * _STEP_MS)

    def _sent_at(self, fields: Mapping[str, Any], at: int) -> Message:
        partition = sum(map(ord, f"{fields['db']}.{fields['coll']}")) % self.partitions
        offset = self._offsets.get(partition, 0)
        self._offsets[partition] = offset + 1
        return Message(partition, offset, at, None, json.dumps(fields, ensure_ascii=False).encode(), ())
