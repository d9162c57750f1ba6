"""The Tencent DTS task in Avro: each row change is a record, and each record a message.

The schema file beside this module is put together from the vendor's page ("Consuming Subscribed Data in Avro Format") and from
what programs that read such topics use. It is a stand-in for the file that the vendor's demo brings.
"""
