"""Statements that trackers of change data capture report as traps, with the tables that are there at their end."""

from __future__ import annotations

from dataclasses import dataclass

_ORDERS = (
    "CREATE TABLE orders (id INT NOT NULL AUTO_INCREMENT, amount DECIMAL(9,2), note VARCHAR(20) "
    "CHARACTER SET latin1, PRIMARY KEY (id)) "
    "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
)
ORDERS = ("id int(11)", "amount decimal(9,2)", "note varchar(20) latin1")


@dataclass(frozen=True)
class Script:
    """Statements in the database ``shop``, and what stands at their end: columns with their types, and the key.

    Tables of another database are called with it.
    """

    statements: tuple[str, ...]
    tables: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]


_ID = ("id",)

SCRIPTS: dict[str, Script] = {
    "a column is moved first": Script(
        (_ORDERS, "ALTER TABLE orders MODIFY note VARCHAR(20) CHARACTER SET latin1 FIRST"),
        {"orders": (("note varchar(20) latin1", "id int(11)", "amount decimal(9,2)"), _ID)},
    ),
    "columns are added first, behind others and at the end": Script(
        (_ORDERS, "ALTER TABLE orders ADD a INT FIRST, ADD b INT AFTER a, ADD c INT, ADD d INT AFTER id, ADD e INT AFTER id"),
        {
            "orders": (
                ("a int(11)", "b int(11)", "id int(11)", "e int(11)", "d int(11)", "amount decimal(9,2)",
                 "note varchar(20) latin1", "c int(11)"),
                _ID,
            )
        },
    ),
    "create table if not exists finds a table": Script(
        (_ORDERS, "CREATE TABLE IF NOT EXISTS orders (x BIGINT PRIMARY KEY, y TEXT)"),
        {"orders": (ORDERS, _ID)},
    ),
    "create table if not exists finds none": Script(
        ("CREATE TABLE IF NOT EXISTS orders (x BIGINT PRIMARY KEY, y TEXT)",),
        {"orders": (("x bigint(20)", "y text utf8mb4"), ("x",))},
    ),
    "a table without a key gets columns": Script(
        (
            "CREATE TABLE bag (word VARCHAR(10), n INT)",
            "ALTER TABLE bag ADD seen DATETIME(3) NULL FIRST, DROP n, CHANGE word `Word` TEXT",
        ),
        {"bag": (("seen datetime(3)", "Word text utf8mb4"), ())},
    ),
    "gh-ost swaps a table": Script(
        (
            _ORDERS,
            "drop /* gh-ost */ table if exists `shop`.`_orders_gho`",
            "drop /* gh-ost */ table if exists `shop`.`_orders_ghc`",
            "create /* gh-ost */ table `shop`.`_orders_ghc` (\n\t\t\tid bigint unsigned "
            "auto_increment,\n\t\t\tlast_update timestamp not null "
            "DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n\t\t\thint varchar(64) charset ascii not null,\n\t\t\t"
            "value varchar(4096) charset ascii not null,\n\t\t\tprimary key(id),\n\t\t\tunique key hint_uidx(hint)\n\t\t) "
            "auto_increment=256 comment='a changelog'",
            "create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`",
            "alter /* gh-ost */ table `shop`.`_orders_gho` add column state enum('new','old') not null after id, "
            "modify amount decimal(12,2)",
            "create /* gh-ost */ table `shop`.`_orders_del` (\n\t\t\tid int auto_increment primary key\n\t\t) engine=InnoDB "
            "comment='ghost-cut-over-sentry'",
            "drop /* gh-ost */ table if exists `shop`.`_orders_del`",
            "rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, `shop`.`_orders_gho` to `shop`.`orders`",
            "drop /* gh-ost */ table if exists `shop`.`_orders_ghc`",
        ),
        {
            "orders": (("id int(11)", "state enum('new','old') utf8mb4", "amount decimal(12,2)", "note varchar(20) latin1"), _ID),
            "_orders_del": (ORDERS, _ID),
        },
    ),
    "pt-online-schema-change swaps a table": Script(
        (
            _ORDERS,
            "CREATE TABLE `shop`.`_orders_new` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `amount` "
            "decimal(9,2) DEFAULT NULL,\n  "
            "`note` varchar(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,\n  PRIMARY KEY "
            "(`id`)\n) ENGINE=InnoDB "
            "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
            "ALTER TABLE `shop`.`_orders_new` ADD COLUMN c1 INT UNSIGNED NOT NULL DEFAULT 3, DROP COLUMN note",
            "CREATE TRIGGER `pt_osc_shop_orders_del` AFTER DELETE ON `shop`.`orders` FOR EACH ROW BEGIN DECLARE "
            "EXIT HANDLER FOR 1146 "
            "begin end; DELETE IGNORE FROM `shop`.`_orders_new` WHERE `shop`.`_orders_new`.`id` <=> OLD.`id`; END",
            "CREATE TRIGGER `pt_osc_shop_orders_ins` AFTER INSERT ON `shop`.`orders` FOR EACH ROW REPLACE INTO "
            "`shop`.`_orders_new` "
            "(`id`, `amount`) VALUES (NEW.`id`, NEW.`amount`)",
            "ANALYZE TABLE `shop`.`_orders_new` /* pt-online-schema-change */",
            "RENAME TABLE `shop`.`orders` TO `shop`.`_orders_old`, `shop`.`_orders_new` TO `shop`.`orders`",
            "DROP TABLE IF EXISTS `shop`.`_orders_old`",
            "DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_orders_del`",
        ),
        {"orders": (("id int(11)", "amount decimal(9,2)", "c1 int(10) unsigned"), _ID)},
    ),
    "three tables change places in one statement": Script(
        (
            "CREATE TABLE a (a INT)", "CREATE TABLE b (b INT)", "CREATE TABLE c (c INT)",
            "RENAME TABLE a TO spare, b TO a, c TO b, spare TO c",
        ),
        {"a": (("b int(11)",), ()), "b": (("c int(11)",), ()), "c": (("a int(11)",), ())},
    ),
    "a table moves to another database": Script(
        (_ORDERS, "RENAME TABLE orders TO `Other.db`.orders", "ALTER TABLE `Other.db`.orders RENAME moved, ADD x DATE"),
        {"moved": ((*ORDERS, "x date"), _ID)},
    ),
    "a column's name changes in case only": Script(
        (
            _ORDERS,
            "ALTER TABLE orders RENAME COLUMN Note TO NOTE",
            "ALTER TABLE orders CHANGE amount AMOUNT DECIMAL(9,2), RENAME COLUMN ID TO Id",
        ),
        {"orders": (("Id int(11)", "AMOUNT decimal(9,2)", "NOTE varchar(20) latin1"), ("Id",))},
    ),
    "two columns change names": Script(
        (
            "CREATE TABLE t (id INT, a INT, b TEXT, PRIMARY KEY (id, a))",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "ALTER TABLE t CHANGE a b TEXT, CHANGE b a BIGINT",
        ),
        {"t": (("id int(11)", "a bigint(20)", "b text utf8mb4"), ("id", "a"))},
    ),
    "statement follows statement": Script(
        (
            _ORDERS,
            *(f"ALTER TABLE orders ADD c{number} INT DEFAULT {number}" for number in range(20)),
            *(f"ALTER TABLE orders DROP c{number}" for number in range(0, 20, 2)),
            *(f"ALTER TABLE orders MODIFY c{number} VARCHAR({number}) FIRST" for number in range(1, 20, 4)),
        ),
        {
            "orders": (
                (*(f"c{number} varchar({number}) utf8mb4" for number in (17, 13, 9, 5, 1)), *ORDERS,
                 *(f"c{number} int(11)" for number in (3, 7, 11, 15, 19))),
                _ID,
            )
        },
    ),
    "a table is dropped and made again with other columns": Script(
        (_ORDERS, "DROP TABLE orders", "CREATE TABLE orders (amount CHAR(3), id BINARY(16), PRIMARY KEY (id, amount))"),
        {"orders": (("amount char(3) utf8mb4", "id binary(16)"), ("id", "amount"))},
    ),
    "a column is dropped and added in one statement": Script(
        (
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
            "ALTER TABLE t DROP a, ADD a VARCHAR(5) AFTER b",
            "ALTER TABLE t DROP id, ADD id INT",
        ),
        {"t": (("b int(11)", "a varchar(5) utf8mb4", "id int(11)"), _ID)},
    ),
    "texts grow with their character set": Script(
        (
            "CREATE TABLE t (a TINYTEXT, b TEXT, c MEDIUMTEXT, d VARCHAR(9), e ENUM('x'), f CHAR(3), g BLOB) CHARSET latin1",
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
            "ALTER TABLE t ADD h TEXT, DEFAULT CHARACTER SET gbk",
            "ALTER TABLE t ADD i TEXT(100)",
        ),
        {
            "t": (
                ("a text utf8mb4", "b mediumtext utf8mb4", "c longtext utf8mb4", "d varchar(9) utf8mb4", "e enum('x') utf8mb4",
                 "f char(3) utf8mb4", "g blob", "h text gbk", "i tinytext gbk"),
                (),
            )
        },
    ),
    "the database decides the character set": Script(
        (
            "CREATE TABLE t (a TEXT)",
            "ALTER DATABASE shop CHARACTER SET gbk",
            "CREATE TABLE u (a TEXT, b CHAR(3) COLLATE latin1_bin)",
            "CREATE TABLE v LIKE t",
            "ALTER TABLE t ADD b TEXT",
        ),
        {
            "t": (("a text utf8mb4", "b text utf8mb4"), ()), "u": (("a text gbk", "b char(3) latin1"), ()),
            "v": (("a text utf8mb4",), ()),
        },
    ),
    "keys come, change and go": Script(
        (
            "CREATE TABLE t (a INT, b INT NULL, c INT)",
            "CREATE UNIQUE INDEX u ON t (a)",
            "ALTER TABLE t ADD PRIMARY KEY (b)",
            "ALTER TABLE t DROP PRIMARY KEY, ADD CONSTRAINT pk PRIMARY KEY USING BTREE (c, B DESC)",
            "DROP INDEX `PRIMARY` ON t",
            "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (a), RENAME INDEX u TO u2",
            "ALTER TABLE t DROP a",
        ),
        {"t": (("b int(11)", "c int(11)"), ())},
    ),
    "what exists already or is missing changes nothing": Script(
        (
            _ORDERS,
            "ALTER TABLE orders ADD COLUMN IF NOT EXISTS Note INT, ADD IF NOT EXISTS extra INT, DROP COLUMN IF EXISTS gone, "
            "MODIFY IF EXISTS gone INT, CHANGE IF EXISTS gone back INT, RENAME COLUMN IF EXISTS gone TO back",
            "ALTER TABLE IF EXISTS missing ADD x INT",
            "DROP TABLE IF EXISTS missing, missing2",
            "RENAME TABLE IF EXISTS missing TO found",
            "CREATE DATABASE IF NOT EXISTS shop CHARACTER SET gbk",
        ),
        {"orders": ((*ORDERS, "extra int(11)"), _ID)},
    ),
    "a statement stands in a version comment": Script(
        ("CREATE TABLE t (a INT) /*!50100 PARTITION BY HASH (a) PARTITIONS 2 */", "/*!50503 ALTER TABLE t ADD b INT */"),
        {"t": (("a int(11)", "b int(11)"), ())},
    ),
    "columns are called by words of the language": Script(
        (
            "CREATE TABLE t (first INT, after INT, period INT, system INT, comment TEXT, date DATE, enum ENUM('a'), text TEXT, "
            "1st INT)",
            "ALTER TABLE t ADD column_format INT FIRST, ADD invisible INT AFTER first, ADD engine INT, ADD data INT, "
            "DROP COLUMN system, CHANGE comment language TEXT AFTER after, MODIFY date DATETIME FIRST, "
            "ALTER period SET DEFAULT 1, RENAME COLUMN 1st TO 2nd",
            "ALTER TABLE t ADD COLUMN system INT, ADD period_ INT, DROP after, DROP COLUMN enum",
        ),
        {
            "t": (
                ("date datetime", "column_format int(11)", "first int(11)", "invisible int(11)", "language text utf8mb4",
                 "period int(11)", "text text utf8mb4", "2nd int(11)", "engine int(11)", "data int(11)",
                 "system int(11)", "period_ int(11)"),
                (),
            )
        },
    ),
    "names differ in more than case": Script(
        (
            "CREATE TABLE t (`σ` INT, `ς` INT, `ſ` INT, s INT, `ı` INT, i INT, `é` INT, e INT, `ß` INT, `Ж` INT)",
            "ALTER TABLE t DROP `Σ`, DROP S, MODIFY `É` BIGINT, RENAME COLUMN `İ` TO `K`, RENAME COLUMN `ж` TO `ж`, "
            "CHANGE E ss INT FIRST",
        ),
        {
            "t": (
                ("ss int(11)", "ς int(11)", "ſ int(11)", "ı int(11)", "K int(11)", "É bigint(20)", "ß int(11)", "ж int(11)"),
                (),
            )
        },
    ),
    "names are quoted, dotted and foreign": Script(
        (
            "CREATE TABLE `a.b``c` (`id.x` INT, `价 格` INT, `select` INT, `/*` INT, `;` INT, `'` INT, "
            "PRIMARY KEY (`select`, `;`))",
            "ALTER TABLE shop . `a.b``c` DROP `/*`, RENAME COLUMN `;` TO `--`, ADD `(` INT AFTER `价 格`",
        ),
        {
            "a.b`c": (
                ("id.x int(11)", "价 格 int(11)", "( int(11)", "select int(11)", "-- int(11)", "' int(11)"), ("select", "--"),
            )
        },
    ),
    "partitions come and go": Script(
        (
            "CREATE TABLE t (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN "
            "(9), PARTITION q VALUES "
            "LESS THAN (99))",
            "CREATE TABLE u (id INT PRIMARY KEY, n INT)",
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
            "ALTER TABLE t TRUNCATE PARTITION p",
            "ALTER TABLE t CONVERT PARTITION q TO TABLE v",
            "ALTER TABLE t ADD PARTITION (PARTITION r VALUES LESS THAN (999))",
            "ALTER TABLE t DROP PARTITION r",
            "ALTER TABLE t ADD x INT REMOVE PARTITIONING",
        ),
        {
            "t": (("id int(11)", "n int(11)", "x int(11)"), _ID), "u": (("id int(11)", "n int(11)"), _ID),
            "v": (("id int(11)", "n int(11)"), _ID),
        },
    ),
    "generated and invisible columns are columns": Script(
        (
            "CREATE TABLE t (a INT, b INT AS (a + 1) VIRTUAL, c INT INVISIBLE DEFAULT 3)",
            "ALTER TABLE t ADD d VARCHAR(9) GENERATED ALWAYS AS (concat(a)) STORED AFTER a, MODIFY c INT",
        ),
        {"t": (("a int(11)", "d varchar(9) utf8mb4", "b int(11)", "c int(11)"), ())},
    ),
    "temporary tables, views and routines are no tables": Script(
        (
            _ORDERS,
            "CREATE TEMPORARY TABLE scratch (x INT)",
            "DROP TEMPORARY TABLE scratch",
            "CREATE OR REPLACE VIEW seen AS SELECT id FROM orders",
            "DROP VIEW seen",
            "CREATE PROCEDURE gone() BEGIN DROP TABLE orders; END",
            "DROP PROCEDURE gone",
        ),
        {"orders": (ORDERS, _ID)},
    ),
    "a database goes with its tables": Script(
        (_ORDERS, "CREATE TABLE `Other.db`.t (a INT)", "DROP DATABASE `Other.db`", "CREATE DATABASE `Other.db`"),
        {"orders": (ORDERS, _ID)},
    ),
}  # fmt: skip
