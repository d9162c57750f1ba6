"""Columns as all formats share them: images of rows, the pivot to tables, casts, character sets, properties."""
