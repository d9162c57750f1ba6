"""The producer of Huawei DRS: row changes as JSON and JSON-C messages."""
