"""Avro as messages carry it: schemas of the customer's own, and values of many messages read side by side."""
