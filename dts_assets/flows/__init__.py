"""Plan, read, step, write, report. Knows no Dagster."""
