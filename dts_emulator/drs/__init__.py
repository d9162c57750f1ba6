"""The producer of Huawei DRS: row changes as JSON-C messages."""
