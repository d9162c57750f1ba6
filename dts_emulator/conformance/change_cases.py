"""Cases about changes: moved keys, minimal images, tables without a key, names, statements, full loads."""

from __future__ import annotations

from dts_emulator.conformance.expected import Case
from dts_emulator.conformance.formats import Abilities
from dts_emulator.conformance.mysql_cases import MysqlCase
from dts_emulator.conformance.plays import with_full_load
from dts_emulator.conformance.story import Named, Story, column, each, key

_IMAGES = "MySQL manual, binlog_row_image; the vendor's page of the format"
_STATEMENTS = "MySQL manual, ALTER TABLE and TRUNCATE TABLE"


def _always(abilities: Abilities) -> bool:
    return True


def _items(story: Story, name: str = "items", *, database: str = "d") -> Named:
    return story.table(name, key(), column("n", "int(11)"), column("note", "varchar(40)"), database=database)


def _deletes(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": number, "note": f"note {number}"}))
    story.update(table, {"id": 2}, {"n": None})
    story.delete(table, {"id": 1})
    story.delete(table, {"n": None})
    with story.transaction():
        story.delete(table, {"id": 3})
        story.insert(table, {"id": 3, "n": 33})
        story.delete(table, {"id": 4})


def _moved_keys(story: Story, abilities: Abilities) -> None:
    table = story.table("pairs", key("b", "varchar(9)"), key("a"), column("note", "varchar(40)"))
    story.insert(table, *each(range(1, 4), lambda number: {"b": "x", "a": number, "note": f"x{number}"}))
    story.insert(table, *each(range(1, 4), lambda number: {"b": "y", "a": number, "note": f"y{number}"}))
    story.update(table, {"b": "x", "a": 1}, {"b": "z"})
    story.update(table, {"b": "y", "a": 3}, {"a": 4, "note": "moved"})
    # 4 goes to 5, 2 to 3 and 1 to 2 in one event: each key is free when its row comes.
    story.update_each(table, [({"b": "y", "a": number}, {"a": number + 1}) for number in (4, 2, 1)])
    story.update(table, {"b": "x", "a": 2}, {"a": 1})
    story.insert(table, {"b": "x", "a": 2, "note": None})


def _minimal(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": number, "note": f"note {number}"}))
    story.update(table, {"id": 1}, {"note": None}, minimal=True)
    story.update(table, {"id": 2}, {"n": 22}, minimal=True)
    story.update(table, {"id": 3}, {"id": 30, "n": None}, minimal=True)
    story.update(table, {"id": 30}, {"note": ""}, minimal=True)
    story.delete(table, {"id": 4}, minimal=True)


def _lost_key(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    story.insert(table, {"id": 1, "n": 1, "note": "one"}, {"id": 2, "n": 2, "note": "two"})
    story.update_that_is_lost(table, {"id": 1}, {"note": "eins"})
    story.update(table, {"id": 2}, {"note": "zwei"})


def _bag(story: Story, abilities: Abilities) -> None:
    table = story.table("bag", column("word", "varchar(9)"), column("n", "int(11)"))
    story.insert(table, *each(range(3), lambda _: {"word": "x", "n": 1}), {"word": None, "n": 2}, {"word": "", "n": 2})
    story.delete(table, {"word": "x"}, most=1)
    story.insert(table, {"word": None, "n": None}, {"word": None, "n": None})
    story.update(table, {"word": "", "n": 2}, {"n": 3})
    story.delete(table, {"word": None, "n": None}, most=1)


def _names(story: Story, abilities: Abilities) -> None:
    columns = [
        key("the id"),
        column("a.b", "int(11)"),
        column("_event_time", "varchar(40)"),
        column("select", "varchar(40)"),
    ]
    for database, name in (
        ("d", "order items"),
        ("d", "a.b"),
        ("d", "a%2Eb"),
        ("d.e", "t"),
        ("d", "订单"),
        ("d", "Order Items"),
    ):
        table = story.table(name, *columns, database=database)
        story.insert(table, {"the id": 1, "a.b": 2, "_event_time": name, "select": database})
        story.insert(table, {"the id": 2, "a.b": None, "_event_time": None, "select": "gone"})
        story.delete(table, {"the id": 2})


def _truncated(story: Story, abilities: Abilities) -> None:
    first, second = (
        story.create(name, "id INT PRIMARY KEY, n INT", key(), column("n", "int(11)")) for name in ("one", "two")
    )
    for table in (first, second):
        story.insert(table, *each(range(1, 8), lambda number: {"id": number, "n": number}))
    story.truncate(first)
    story.insert(first, {"id": 3, "n": 33}, {"id": 9, "n": 99})
    story.update(second, {"id": 3}, {"n": 30})


def _altered(story: Story, abilities: Abilities) -> None:
    identity, number, note = key(), column("n", "int(11)"), column("note", "varchar(40)")
    table = story.create("items", "id INT PRIMARY KEY, n INT, note VARCHAR(40)", identity, number, note)
    story.insert(table, {"id": 1, "n": 1, "note": "one"}, {"id": 2, "n": 2, "note": "two"})
    colour = column("colour", "varchar(9)")
    story.alter(table, "ADD COLUMN colour VARCHAR(9) AFTER id", [identity, colour, number, note])
    story.insert(table, {"id": 3, "colour": "red", "n": 3, "note": "three"})
    story.update(table, {"id": 1}, {"colour": "blue"})
    story.alter(table, "DROP COLUMN n", [identity, colour, note])
    story.insert(table, {"id": 4, "colour": None, "note": "four"})
    count = column("count", "int(11)")
    story.alter(table, "ADD COLUMN count INT NOT NULL DEFAULT 7", [identity, colour, note, count], filled={"count": 7})
    story.insert(table, {"id": 5, "count": 8})
    story.statement("CREATE INDEX by_note ON items (note)")


def _dropped(story: Story, abilities: Abilities) -> None:
    table = story.create("items", "id INT PRIMARY KEY, n INT", key(), column("n", "int(11)"))
    story.insert(table, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    story.statement("DROP TABLE items")
    again = story.create("items", "id INT PRIMARY KEY, word VARCHAR(9)", key(), column("word", "varchar(9)"))
    story.insert(again, {"id": 2, "word": "two"}, {"id": 3, "word": None})


def _loaded(story: Story, abilities: Abilities) -> None:
    table = _items(story)
    bag = story.table("bag", column("word", "varchar(9)"), column("raw", "varbinary(9)"))
    story.insert(table, *each(range(1, 6), lambda number: {"id": number, "n": number, "note": None}))
    story.insert(bag, {"word": "x", "raw": b"\x80\x7f"}, {"word": "x", "raw": b"\x80\x7f"}, {"word": None, "raw": b""})
    story.mark("loaded")
    story.update(table, {"id": 1}, {"note": "one"})
    story.delete(table, {"id": 2})
    story.insert(table, {"id": 6, "n": None, "note": ""})
    story.delete(bag, {"word": "x"}, most=1)


CHANGE_CASES: tuple[Case, ...] = tuple(
    one.case()
    for one in (
        MysqlCase(
            "deletes", "Rows are deleted, one of them and its key come again in one transaction",
            "the deleted row is looked for in the field that does not have it: drs-json has it in old, drs-json-c in data",
            _IMAGES, _deletes, judges_changes=_always,
        ),
        MysqlCase(
            "update_that_moves_the_key", "UPDATEs change parts of a key, to keys that other rows just left",
            "the row stays under its old key, or a row that moved to a key is deleted with the row that was there", _IMAGES,
            _moved_keys, judges_changes=_always,
        ),
        MysqlCase(
            "update_with_minimal_images", "The server logs the key and the changed columns alone",
            "a column that was not sent becomes NULL; NULL that was sent is taken for not sent", _IMAGES, _minimal,
            where=lambda abilities: abilities.absent, judges_changes=_always,
        ),
        MysqlCase(
            "update_that_lost_its_key", "The server logs changed columns alone, and the message does not tell the row",
            "the change is applied to a row without a key, to all rows, or passed over without a word", _IMAGES, _lost_key,
            where=lambda abilities: not abilities.absent, judges_changes=_always,
            quarantine=lambda name: {"ragged_row": 1},
        ),
        MysqlCase(
            "old_has_changed_columns_alone", "old of an UPDATE has the columns that changed, and data has all",
            "columns that old does not have are taken for NULL", _IMAGES, _moved_keys,
            where=lambda abilities: abilities.copies == "id", options={"old": "changed"},
        ),
        MysqlCase(
            "table_without_a_key", "Equal rows of a table without a key come and go",
            "equal rows become one, or a DELETE takes all of them", _IMAGES, _bag, judges_changes=_always,
        ),
        MysqlCase(
            "hostile_names", "Blanks, dots, percent signs and capitals in the names of tables and columns",
            "two tables become one, or a name is split at a dot", "MySQL manual, Schema Object Names", _names,
        ),
        MysqlCase(
            "truncate_between_rows", "TRUNCATE TABLE stands between rows of the table",
            "rows from before the statement stay, or rows behind it are lost", _STATEMENTS, _truncated,
        ),
        MysqlCase(
            "columns_come_and_go", "ADD COLUMN in the middle, DROP COLUMN and a default stand between rows",
            "values shift into other columns; rows that no event touches lack the default", _STATEMENTS, _altered,
        ),
        MysqlCase(
            "table_dropped_and_made_again", "A table is dropped, and made again with other columns",
            "rows of the first table stay", _STATEMENTS, _dropped,
        ),
        MysqlCase(
            "full_load_and_changes", "A full load, and changes behind it",
            "rows of type INIT are not taken, or equal rows of a table without a key become one",
            "The vendor's page of the format, type INIT", _loaded, where=lambda abilities: abilities.full_load,
            play=with_full_load,
        ),
    )
)  # fmt: skip
