"""Avro as messages carry it: a customer's own schemas, and values of many messages side by side."""
