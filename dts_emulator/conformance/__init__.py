"""The conformance suite: captures of every wire format, with the rows that a right consumer ends with, in plain files."""
