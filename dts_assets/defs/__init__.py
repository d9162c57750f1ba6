"""All that Dagster sees: partition keys to spans, one call of a flow, reports to metadata and checks."""
