"""The topics of a DRS task: the name that a policy gives a table, and a database's statements.

The vendor: a statement goes to the topic that the template names with an empty table name, to ``db1`` where a table's topic is
``db1-tab1``.
"""

from __future__ import annotations

import re

from dts_emulator.drs.drs_options import TEMPLATES, DrsOptions

_REFUSED = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 249


def topic_of(options: DrsOptions, database: str, table: str = "") -> str | None:
    """Return the topic of a table, or of a database's statements; None where the task has only one.

    A character that Kafka refuses becomes ``_``. Separators around an empty part go.
    """
    if not options.topic_policy:
        return None
    parts = {"$database$": database, "$schema$": "", "$tablename$": table}
    pieces = re.split(r"(\$\w+\$)", options.topic_template or TEMPLATES[options.topic_policy])
    name = ""
    for piece in pieces:
        part = parts.get(piece)
        if part:
            name += part
        elif part is not None:
            name = name.rstrip("-_.")
        elif name:
            name += piece
        else:
            name = piece.lstrip("-_.")
    return _REFUSED.sub("_", name)[:_LONGEST] or options.topic
