"""The lake: Iceberg tables, exact replacement of a span, the ledger."""
