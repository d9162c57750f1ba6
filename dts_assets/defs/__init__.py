"""The Dagster side: partition keys become spans, one flow is called, its report becomes metadata and checks."""
