"""The dts-assets command: what Dagster has no word for."""
