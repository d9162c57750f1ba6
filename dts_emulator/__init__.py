"""The laboratory beside the product: vendors' tasks without a cloud account, a busy database, faults, judges.

The row binlog of a real MySQL-family server is encoded as the vendors describe it, and recorded as a capture or sent to Kafka.
The producers share the model and the generated protocol with the decoder and nothing else: they cannot share its mistakes.
"""
