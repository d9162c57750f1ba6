"""The version of the code that makes rows."""

CODE_VERSION = "7"
"""Raised when equal inputs give other rows. It stands in every ledger row and in Dagster's code versions."""

ROWS_VERSION = "7"
"""The newest code version that makes other entries or rows of equal messages.

Windows that an earlier one made are stale, as if a setting had changed. It is raised with :data:`CODE_VERSION`, unless that one
is raised for another reason.
"""
