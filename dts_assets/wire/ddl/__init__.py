"""Statements as the source wrote them, read for their effects on tables, columns, keys and rows."""
