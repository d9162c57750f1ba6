"""Statements as the source wrote them, read for their effects on tables, columns, keys and rows.

The source of all rules is the manual of MySQL ("SQL Statements", "Data Definition Statements") and of MariaDB.
"""
