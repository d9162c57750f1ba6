"""Tables of a server with minimal row images, whose keys change too, and odd histories of rows that move."""

from __future__ import annotations

from dataclasses import replace

from tests.stages.worlds import KEYS, Change, Row, World, at, row


class Minimal(World):
    """A table of a server with minimal row images, whose keys change too."""

    def partial(self, number: int, target: int) -> None:
        """Change some columns of a row, and its key if the target is another."""
        _, _, name, amount = self.row(number)
        _, _, new_name, new_amount = self.fresh(target)
        absent = self.chance.choice([(), ("name",), ("amount",), ("name", "amount")])
        after = (
            self.number,
            target,
            name if "name" in absent else new_name,
            amount if "amount" in absent else new_amount,
        )
        key = self.chance.choice([(), KEYS[:1], KEYS] if number == target else [(), KEYS[:1]])
        self.event([(self.row(number), after)], (*absent, *key))

    def update(self) -> None:
        for number in self._some():
            self.partial(number, number)

    def move(self) -> None:
        free = [number for number in range(8) if number not in self.rows]
        if self.rows and free:
            self.partial(self.chance.choice(sorted(self.rows)), self.chance.choice(free))

    def chain(self) -> None:
        for _ in range(self.chance.randint(2, 4)):
            self.move()

    def shift(self) -> None:
        """UPDATE t SET id = id + 1 ORDER BY id DESC, which sends nothing but the keys."""
        pairs = [(self.row(n), (self.number, n + 1, *self.row(n)[2:])) for n in sorted(self.rows, reverse=True)]
        self.event(pairs, ("name", "amount"))
        if 8 in self.rows:
            self.event([(self.row(8), None)])

    def swap(self) -> None:
        if len(self.rows) >= 2:
            one, other = self.chance.sample(sorted(self.rows), 2)
            for number, target in ((one, 99), (other, one), (99, other)):
                self.partial(number, target)

    def twice(self) -> None:
        """INSERT ... ON DUPLICATE KEY UPDATE: one event moves a row to a key and on to another one."""
        free = [number for number in range(8) if number not in self.rows]
        if self.rows and len(free) >= 2:
            old, (over, new) = self.row(self.chance.choice(sorted(self.rows))), self.chance.sample(free, 2)
            self.pieces = False
            moved = [(old[0], target, *old[2:]) for target in (over, new)]
            self.event([(old, moved[0]), (moved[0], moved[1])], ("name", "amount"))
            self.pieces = True


STAYS = (Minimal.insert, Minimal.update, Minimal.update, Minimal.delete, Minimal.reinsert)
MOVES = (*STAYS, Minimal.move, Minimal.chain, Minimal.shift, Minimal.swap, Minimal.twice)


def moved(number: int, target: int, position: int, absent: tuple[str, ...] = ("name", "amount")) -> Change:
    return Change("update", row(0, number=number), row(0, number=target), at(1, position), absent=absent)


UNSEEN: dict[str, tuple[list[Change], dict[int, str | None]]] = {
    "a row that was never seen, twice moved": (
        [moved(1, 2, 1), moved(2, 3, 2), Change("update", row(0, "told", 3), row(0, "told", 3), at(1, 3))], {3: "told"},
    ),
    "told of between its moves": (
        [moved(1, 2, 1), Change("update", row(0, number=2), row(0, "told", 2), at(1, 2)), moved(2, 3, 3), moved(3, 4, 4)],
        {4: "told"},
    ),
    "an insert at a key that nobody left begins a row": (
        [Change("insert", None, row(0, "old", 1), at(1, 1)),
         Change("insert", None, row(0, None, 1), at(1, 2), absent=("name",)), moved(1, 2, 3)], {2: None},
    ),
    "moved onto a key that nobody left": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), Change("insert", None, row(0, "other", 2), at(1, 2)),
         moved(1, 2, 3)], {2: "mine"},
    ),
    "to a key that was there and was deleted": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), Change("insert", None, row(0, "other", 2), at(1, 2)),
         Change("delete", row(0, number=2), None, at(1, 3)), moved(1, 2, 4)], {2: "mine"},
    ),
    "the same moves twice": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2), moved(1, 2, 2), moved(2, 3, 3), moved(2, 3, 3)],
        {3: "mine"},
    ),
    "moved and deleted": ([Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2),
        Change("delete", row(0, number=2), None, at(1, 3))], {}),
    "there and back, with another row under its key meanwhile": (
        [Change("insert", None, row(0, "mine", 1), at(1, 1)), moved(1, 2, 2),
         Change("insert", None, row(0, "guest", 1), at(1, 3)), moved(1, 3, 4), moved(2, 1, 5)], {1: "mine", 3: "guest"},
    ),
}  # fmt: skip


def in_world(number: int, change: Change) -> Change:
    def moved(image: Row | None) -> Row | None:
        return None if image is None else (number, *image[1:])

    return replace(change, before=moved(change.before), after=moved(change.after))
