"""The conformance suite: captures of every wire format, and the rows that a right consumer ends with."""
