"""The Tencent DTS task in JSON: each row change is a record, and each record a message.

The vendor's page "JSON Demo Description" (571/61656) names the fields and says how values become texts. How images are written is
not said: ``JsonOptions`` has the forms that the decoder takes, and none is proven.
"""
