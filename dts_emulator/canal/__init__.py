"""The producer of Canal: row changes as the JSON that it sends to Kafka, ``FlatMessage``."""
