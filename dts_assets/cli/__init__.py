"""The `dts-assets` command, for tasks that Dagster has no word for."""
