"""The producer of Tencent DTS: row changes as Protobuf entries in envelopes."""
