"""Short lives of tables by what happens in them: what trackers of other products report, and what statements are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.dts_emulator.server_lives import FIRST, HOUR, Life, LifeRecorder


@dataclass(frozen=True)
class Elsewhere:
    """A statement of another session, whose transaction stays open; without one, its COMMIT."""

    sql: str = ""


Said = str | int | Elsewhere
"""A statement, or the window that begins."""

_T = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))"
_ROWS = "INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, NULL, NULL)"


def recorded_script(recorder: LifeRecorder, script: tuple[Said, ...], *, image: str = "FULL") -> Life:
    """A script that has been lived, every statement of which the server must take."""
    recorder.begin(("d", "e"), image=image)
    open_sql = ""
    for one in script:
        if isinstance(one, int):
            recorder.go_to(FIRST + one * HOUR)
            continue
        recorder.wait(1)
        if isinstance(one, Elsewhere):
            done = recorder.open_elsewhere(one.sql) if one.sql else recorder.commit_elsewhere(open_sql)
            open_sql = one.sql
        else:
            before = recorder.beside.counts["refused"]
            done = recorder.say(one) and recorder.beside.counts["refused"] == before
        assert done, one
    return recorder.end()


SCRIPTS: Mapping[str, tuple[Said, ...]] = {
    "a column moved FIRST does not shift values": (
        _T, _ROWS, 1, "ALTER TABLE t MODIFY b VARCHAR(20) FIRST", "INSERT INTO t VALUES ('four', 4, 40)",
        "ALTER TABLE t MODIFY a INT AFTER b, MODIFY b VARCHAR(20) AFTER id", 2, "UPDATE t SET b = 'second' WHERE id = 2",
    ),
    "an added column has its default in rows that no event touches": (
        _T, _ROWS, 1,
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7, ADD e VARCHAR(9) DEFAULT 'it''s' AFTER id, ADD f DATE FIRST, "
        "ADD g INT NOT NULL", 2, "INSERT INTO t (id, g) VALUES (4, 4)", "UPDATE t SET c = 8 WHERE id = 1",
        "ALTER TABLE t ALTER c SET DEFAULT 9",
        "INSERT INTO t (id, g) VALUES (5, 5)",
    ),
    "a column goes and a column gets another name": (
        _T, _ROWS, 1, "ALTER TABLE t DROP a", "ALTER TABLE t CHANGE b word VARCHAR(40)", "INSERT INTO t VALUES (4, 'four')", 2,
        "ALTER TABLE t RENAME COLUMN word TO a", "UPDATE t SET a = 'eins' WHERE id = 1",
    ),
    "two columns change names": (
        _T, _ROWS, 1, "ALTER TABLE t CHANGE a b INT, CHANGE b a VARCHAR(20)", "INSERT INTO t VALUES (4, 40, 'four')", 2,
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    ),
    "a column's name changes in case only": (
        _T, _ROWS, 1, "ALTER TABLE t RENAME COLUMN b TO B", "UPDATE t SET B = 'zwei' WHERE id = 2", 2,
        "ALTER TABLE t CHANGE a A INT", "ALTER TABLE t RENAME COLUMN id TO Id", "INSERT INTO t VALUES (4, 40, 'four')",
    ),
    "a column becomes another type": (
        _T, _ROWS, 1, "ALTER TABLE t MODIFY a BIGINT", "INSERT INTO t VALUES (4, 1099511627776, 'four')",
        "DELETE FROM t WHERE id = 4", "ALTER TABLE t MODIFY a VARCHAR(20)", "UPDATE t SET a = 'zehn' WHERE id = 1", 2,
        "DELETE FROM t WHERE id = 1", "ALTER TABLE t MODIFY a DECIMAL(9,2)", "ALTER TABLE t MODIFY b VARBINARY(20)",
    ),
    "a column is dropped and added again under its name with another type": (
        _T, _ROWS, 1, "ALTER TABLE t DROP b", "ALTER TABLE t ADD b DATE", "INSERT INTO t VALUES (4, 40, '2026-01-05')", 2,
        "ALTER TABLE t DROP b, ADD b INT NOT NULL DEFAULT 5 AFTER id", "UPDATE t SET b = 6 WHERE id = 4",
    ),
    "a column is dropped and added again with the same type in one statement": (
        _T, _ROWS, 1, "ALTER TABLE t DROP b, ADD b VARCHAR(20)", 2, "UPDATE t SET b = 'zwei' WHERE id = 2",
    ),
    "a table is replaced by one with equal columns": (
        _T, _ROWS, 1, "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))", 2,
        "INSERT INTO t VALUES (2, 5, NULL)",
    ),
    "a column with a date of no calendar goes and comes again": (
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE)",
        "SET STATEMENT sql_mode = '' FOR INSERT INTO t VALUES (1, '0000-00-00'), (2, '2026-01-05')", 1,
        "ALTER TABLE t DROP a, ADD b INT", 2, "ALTER TABLE t ADD a DATE", "INSERT INTO t VALUES (3, 3, NULL)",
    ),
    "create table if not exists finds a table and changes nothing": (
        _T, _ROWS, 1, "CREATE TABLE IF NOT EXISTS t (x INT PRIMARY KEY, y TEXT)", "UPDATE t SET a = 11 WHERE id = 1", 2,
        "CREATE TABLE IF NOT EXISTS t (x INT)",
    ),
    "a table without a key gets statements": (
        "CREATE TABLE t (word VARCHAR(10), n INT)", "INSERT INTO t VALUES ('x', 1), ('x', 1), (NULL, 2)", 1,
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 3 FIRST, MODIFY n BIGINT", "DELETE FROM t LIMIT 1",
        "INSERT INTO t VALUES (4, 'y', 5)", 2, "ALTER TABLE t MODIFY n VARCHAR(9)", "UPDATE t SET n = 'zwei' WHERE n = '2'",
        "ALTER TABLE t DROP word", "DELETE FROM t WHERE n = '1'",
    ),
    "rows of one event replace each other in a table without a primary key": (
        "CREATE TABLE t (b INT UNIQUE NOT NULL, d VARCHAR(9))", "INSERT INTO t VALUES (1, '')",
        "REPLACE INTO t VALUES (2, 'x'), (1, NULL)", "REPLACE INTO t VALUES (3, 'first'), (3, 'second'), (3, 'third')", 1,
        "ALTER TABLE t ADD c INT DEFAULT 5",
    ),
    "a statement for a table in a window without any row of it": (
        _T, _ROWS, 1, "ALTER TABLE t ADD c INT DEFAULT 7", 2, "INSERT INTO t VALUES (4, 40, 'four', 44)", 3,
        "ALTER TABLE t DROP a, MODIFY c VARCHAR(9)",
    ),
    "a table is only made, altered and never has a row": (
        _T, 1, "ALTER TABLE t ADD c INT DEFAULT 7 FIRST", 2, "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO other VALUES (1)",
    ),
    "statement follows row follows statement": (
        _T, _ROWS, 1,
        *(
            sentence.format(n=n)
            for n in range(6)
            for sentence in (
                "ALTER TABLE t ADD c{n} INT NOT NULL DEFAULT {n} FIRST", "UPDATE t SET c{n} = -1 WHERE id = 1",
                "INSERT INTO t (id) VALUES (1{n})",
            )
        ),
        "ALTER TABLE t DROP c0", "UPDATE t SET c1 = 5 WHERE id = 2", "ALTER TABLE t MODIFY c1 VARCHAR(9) AFTER id",
        "UPDATE t SET c1 = 'five' WHERE id = 3", "ALTER TABLE t RENAME COLUMN c1 TO c0", "DELETE FROM t WHERE id = 10",
    ),
    "the key's column gets another type": (
        _T, _ROWS, 1, "ALTER TABLE t MODIFY id VARCHAR(9)", "UPDATE t SET a = 11 WHERE id = '1'",
        "INSERT INTO t VALUES ('x', 0, NULL)", 2,
        "DELETE FROM t WHERE id = '2'", "ALTER TABLE t MODIFY id VARCHAR(30) CHARACTER SET latin1",
        "UPDATE t SET id = 'y' WHERE id = 'x'",
    ),
    "the key's column gets another name": (
        _T, _ROWS, 1, "ALTER TABLE t CHANGE id number BIGINT", "UPDATE t SET a = 11 WHERE number = 1",
        "INSERT INTO t VALUES (4, 40, 'four')", 2, "DELETE FROM t WHERE number = 2", "UPDATE t SET number = 9 WHERE number = 3",
    ),
    "the key goes, comes and has other columns": (
        _T, _ROWS, 1, "ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 10, 'again')", "DELETE FROM t WHERE b = 'one'",
        2, "ALTER TABLE t ADD PRIMARY KEY (id)", "UPDATE t SET a = 12 WHERE id = 1", "UPDATE t SET b = 'drei' WHERE id = 3",
        "ALTER TABLE t MODIFY b VARCHAR(20) NOT NULL DEFAULT 'none', DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)",
        "INSERT INTO t VALUES (1, 13, 'once more')", 3, "DELETE FROM t WHERE b = 'two'",
    ),
    "truncate, drop and create with other columns": (
        _T, _ROWS, 1, "TRUNCATE t", "INSERT INTO t VALUES (9, 90, 'nine')", 2, "DROP TABLE t",
        "CREATE TABLE t (b DATE, id VARCHAR(9) PRIMARY KEY)", "INSERT INTO t VALUES ('2026-01-05', 'x')", 3, "TRUNCATE t",
    ),
    "create table like": (
        _T, _ROWS, 1, "ALTER TABLE t ADD c INT DEFAULT 7 FIRST", "CREATE TABLE u LIKE t", "INSERT INTO u (id) VALUES (1)", 2,
        "ALTER TABLE u DROP c", "INSERT INTO u SELECT id, a, b FROM t WHERE id > 1",
    ),
    "years below 100 in a date are converted": (
        "CREATE TABLE t (id INT PRIMARY KEY, v DATE, w DATE, x DATETIME(3))",
        "INSERT INTO t VALUES (1, '0050-03-04', '0001-01-01', '0099-12-31 23:59:59.999'), (2, '0099-12-31', '1000-01-01', NULL)",
        1, "ALTER TABLE t MODIFY v DATETIME, MODIFY w VARCHAR(30), MODIFY x DATETIME(6)", 2,
        "ALTER TABLE t MODIFY v VARCHAR(30), MODIFY w DATE, MODIFY x VARCHAR(30)",
    ),
    "many clauses in one statement": (
        _T, _ROWS, 1,
        "ALTER TABLE t ADD c INT DEFAULT 7 FIRST, DROP a, CHANGE b a TEXT CHARACTER SET gbk AFTER c, ADD b DATETIME DEFAULT "
        "'2026-01-05 01:02:03' AFTER id, MODIFY id BIGINT UNSIGNED FIRST",
        "INSERT INTO t VALUES (4, 1, 'é', NULL)", 2, "ALTER TABLE t CONVERT TO CHARACTER SET latin1, DROP c",
    ),
    "two sessions write at once": (
        _T, _ROWS, "CREATE TABLE u (id INT PRIMARY KEY, n INT)", 1, Elsewhere("INSERT INTO u VALUES (1, 1), (2, 2)"),
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7 FIRST", "INSERT INTO t VALUES (8, 4, 40, 'four')", 2, Elsewhere(),
        "ALTER TABLE u ADD first INT DEFAULT 1 FIRST", Elsewhere("UPDATE u SET n = 5 WHERE id = 1"), "ALTER TABLE t DROP a",
        Elsewhere(),
    ),
}  # fmt: skip

_GHOST = "CREATE TABLE {} (id INT PRIMARY KEY, a INT, b VARCHAR(20), c INT NOT NULL DEFAULT 7)"
MOVES: Mapping[str, tuple[Said, ...]] = {
    "gh-ost swaps a table": (
        _T, _ROWS, 1, "DROP TABLE IF EXISTS `d`.`_t_gho`",
        "CREATE TABLE `d`.`_t_ghc` (id BIGINT AUTO_INCREMENT PRIMARY KEY, last_update TIMESTAMP NOT NULL DEFAULT "
        "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint VARCHAR(64) CHARSET ascii NOT NULL, UNIQUE KEY (hint))",
        "CREATE /* gh-ost */ TABLE `d`.`_t_gho` LIKE `d`.`t`",
        "ALTER /* gh-ost */ TABLE `d`.`_t_gho` ADD COLUMN c INT NOT NULL DEFAULT 7 FIRST, MODIFY a BIGINT",
        "INSERT INTO _t_ghc (hint) VALUES ('state')", "INSERT IGNORE INTO _t_gho (id, a, b) SELECT id, a, b FROM t WHERE id < 3",
        "UPDATE t SET a = 11 WHERE id = 1", "REPLACE INTO _t_gho (id, a, b) VALUES (1, 11, 'one')",
        "INSERT IGNORE INTO _t_gho (id, a, b) SELECT id, a, b FROM t WHERE id >= 3", 2,
        "CREATE TABLE `d`.`_t_del` (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB COMMENT='ghost-cut-over-sentry'",
        "DROP TABLE IF EXISTS `d`.`_t_del`",
        "RENAME /* gh-ost */ TABLE `d`.`t` TO `d`.`_t_del`, `d`.`_t_gho` TO `d`.`t`", "INSERT INTO t VALUES (8, 4, 40, 'four')",
        "DELETE FROM t WHERE id = 2", 3, "DROP TABLE IF EXISTS `d`.`_t_ghc`", "DROP TABLE IF EXISTS `d`.`_t_del`",
    ),
    "pt-online-schema-change swaps a table": (
        _T, _ROWS, 1, _GHOST.format("`d`.`_t_new`"),
        "CREATE TRIGGER pt_osc_d_t_ins AFTER INSERT ON d.t FOR EACH ROW REPLACE INTO d._t_new (id, a, b) "
        "VALUES (NEW.id, NEW.a, NEW.b)",
        "CREATE TRIGGER pt_osc_d_t_upd AFTER UPDATE ON d.t FOR EACH ROW REPLACE INTO d._t_new (id, a, b) "
        "VALUES (NEW.id, NEW.a, NEW.b)",
        "CREATE TRIGGER pt_osc_d_t_del AFTER DELETE ON d.t FOR EACH ROW DELETE IGNORE FROM d._t_new WHERE _t_new.id <=> OLD.id",
        "INSERT LOW_PRIORITY IGNORE INTO `d`.`_t_new` (id, a, b) SELECT id, a, b FROM d.t LOCK IN SHARE MODE",
        "UPDATE t SET a = 11 WHERE id = 1", "INSERT INTO t VALUES (4, 40, 'four')", 2, "DELETE FROM t WHERE id = 2",
        "ANALYZE TABLE `d`.`_t_new` /* pt-online-schema-change */",
        "RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`_t_new` TO `d`.`t`",
        "DROP TABLE IF EXISTS `d`.`_t_old`", "DROP TRIGGER IF EXISTS d.pt_osc_d_t_del", "INSERT INTO t VALUES (5, 50, 'five', 8)",
    ),
    "a table gets another name": (
        _T, _ROWS, 1, "RENAME TABLE t TO u", "INSERT INTO u VALUES (4, 40, 'four')", "DELETE FROM u WHERE id = 1", 2,
        "ALTER TABLE u RENAME TO t, ADD c INT DEFAULT 7", "UPDATE t SET b = 'zwei' WHERE id = 2",
    ),
    "two tables change places": (
        _T, _ROWS, "CREATE TABLE u (b DATE, id VARCHAR(9) PRIMARY KEY)", "INSERT INTO u VALUES ('2026-01-05', 'x')", 1,
        "RENAME TABLE t TO spare, u TO t, spare TO u", "INSERT INTO t VALUES (NULL, 'y')", "UPDATE u SET a = 1 WHERE id = 3", 2,
        "RENAME TABLE t TO spare, u TO t, spare TO u",
    ),
    "a table gets another name and no row since": (
        _T, _ROWS, 1, "UPDATE t SET a = 11 WHERE id = 1", 2, "RENAME TABLE t TO u", 3, "ALTER TABLE u ADD c INT DEFAULT 7",
    ),
    "tables of equal columns change places": (
        _T, _ROWS, "CREATE TABLE u LIKE t", "INSERT INTO u VALUES (1, 1, 'u')", 1,
        "RENAME TABLE t TO spare, u TO t, spare TO u", 2, "DELETE FROM u WHERE id = 1", "INSERT INTO t VALUES (2, 2, 'u')",
    ),
    "a table goes away by its name and comes again": (
        _T, _ROWS, 1, "RENAME TABLE t TO archive", "CREATE TABLE t LIKE archive", "INSERT INTO t VALUES (7, 7, 'new')", 2,
        "UPDATE archive SET a = 0", "RENAME TABLE t TO spare, archive TO t", "DELETE FROM t WHERE id = 3",
    ),
    "a table moves to another database and back": (
        _T, _ROWS, 1, "RENAME TABLE t TO e.t", "INSERT INTO e.t VALUES (4, 40, 'four')", 2, "ALTER TABLE e.t ADD c INT DEFAULT 7",
        "RENAME TABLE e.t TO t", "UPDATE t SET a = 1 WHERE id = 3",
    ),
}  # fmt: skip
"""Lives in which tables get other names."""
