"""The Kafka messages of a vendor's task, whatever their format: routing, time and capture files."""
