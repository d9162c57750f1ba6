"""The steps themselves: Arrow batches to Arrow batches in Spark tasks, DataFrames to DataFrames. No reads, no writes."""
