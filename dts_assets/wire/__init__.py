"""Bytes to fragments, entries and typed columns; one module per format. No Spark, no Kafka, no Dagster."""
