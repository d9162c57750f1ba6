"""Statements as the source wrote them: their effects on tables, and the schemas that follow from them.

:func:`dts_assets.wire.ddl.reading.effects_of` names the effects of a statement that stands alone.
:func:`dts_assets.wire.ddl.schema_model.apply` carries a statement out on a catalog of tables.

The source of all rules is the manual of MySQL ("SQL Statements", "Data Definition Statements") and of MariaDB.
"""
