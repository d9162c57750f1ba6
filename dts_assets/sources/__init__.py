"""Sources of messages: offset ranges as Arrow batches, watermarks, offsets for a time. No Spark."""
