"""A real MySQL-family binlog encoded as the vendors do; shares nothing with the decoder but the protocol."""
