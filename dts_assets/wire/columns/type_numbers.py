"""The types of MySQL by the numbers of its protocol."""

TYPE_NAMES = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 15: "varchar", 16: "bit",
    17: "timestamp", 18: "datetime", 19: "time", 245: "json", 246: "decimal", 247: "enum", 248: "set", 253: "varchar",
    254: "char", 255: "geometry",
}  # fmt: skip
"""MySQL's types by the numbers of its protocol, for schemas without the type's text. BLOB and TEXT share theirs."""
