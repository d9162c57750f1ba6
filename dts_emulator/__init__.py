"""A producer of the vendor's messages without a cloud account: the row binlog of a real MySQL-family server, encoded as
the vendor describes it and recorded as a capture.

It shares the model and the generated protocol with the decoder and nothing else, so that it cannot share its mistakes.
"""
