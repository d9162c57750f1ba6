"""The command ``dts-assets schema``: the columns of a source table at a moment, and what changed since."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from dts_assets.cli.main import config_option, settings_of, table_of
from dts_assets.cli.tables import chosen_subscription, table_named
from dts_assets.flows.known_tables import known_sources
from dts_assets.flows.pipeline import Pipeline, open_pipeline
from dts_assets.flows.reached_rules import rule_finder
from dts_assets.flows.schema_history import SchemaSources, source_tables
from dts_assets.flows.schema_moments import SchemaAnswer, schema_at
from dts_assets.model.tables import TableId
from dts_assets.planning.source_moments import Moment, moment_of
from dts_assets.wire.ddl.change_words import all_words, told_words
from dts_assets.wire.ddl.column_types import DeclaredType
from dts_assets.wire.ddl.schema_history import SchemaState
from dts_assets.wire.ddl.stored_defaults import type_name
from dts_assets.wire.ddl.table_schemas import SchemaColumn, TableSchema, folded
from dts_assets.wire.ddl.told_schemas import ToldColumn

_WIDTH = 160
"""The width of output that is no terminal: lines are for reading and for ``grep``."""

_UNKNOWN = "?"


def _moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Moment | None:
    try:
        return None if value is None else moment_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("schema")
@click.argument("table")
@click.option(
    "--at",
    "moment",
    callback=_moment,
    help="Everything up to this moment counts, the moment included: a position (0:4:1187 or mysql-bin.000004:1187), a GTID, a "
    "time in UTC (2026-01-05T07:30) or a window (2026-01-05-07:00). Default: all that is complete.",
)
@click.option("--subscription", help="Needed where the configuration has several.")
@config_option
def schema(table: str, moment: Moment | None, subscription: str | None, config: Path | None) -> None:
    """Show the columns of a source table at a moment, and what changed since.

    TABLE is its name at the source, shopdb.orders, or that of a renamed table in the lake. Without --at all changes are listed.
    Columns follow from the statements of the source and from the columns that its events list; "?" stands for what only a
    statement could tell.
    """
    settings = settings_of(config)
    name = chosen_subscription(settings, subscription)
    pipeline = open_pipeline(settings, name, only_read=True)
    answer = schema_at(pipeline, _table(pipeline, table), moment)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_WIDTH)
    _show(console, pipeline, answer, since=moment is not None)


def _table(pipeline: Pipeline, name: str) -> TableId:
    """Return the source table that a person means, by its name there or in the lake.

    Statements alone may tell of it.

    Raises:
        click.BadParameter: There is none, or it could be one of several.
    """
    sources = source_tables(pipeline)
    if any(one.is_called(name) for one in sources):
        return table_named(name, sources, pipeline.name)
    routed = [(table, some) for table, some in known_sources(pipeline).items() if table.is_called(name)]
    if len(routed) == 1:
        (table, some) = routed[0]
        names = sorted({one.of_all_sets for one in some})
        if len(names) == 1:
            return names[0]
        shown = f"{names[0]} and {names[1]}" if len(names) == 2 else f"{names[0]}, {names[1]} and {len(names) - 2} more"
        raise click.BadParameter(
            f"{table} is merged from {shown}, each with columns of its own; name one of them", param_hint="TABLE"
        )
    # To follow all statements takes seconds where there are thousands.
    return table_named(name, SchemaSources.of(pipeline).tables, pipeline.name)


def _show(console: Console, pipeline: Pipeline, answer: SchemaAnswer, *, since: bool) -> None:
    state = answer.state
    console.print(_text(f"{answer.table} {answer.where}"), soft_wrap=True)
    console.print(_text(_origin(pipeline, answer, answer.at)), soft_wrap=True)
    if state.schema is None:
        console.print("There is no such table then.")
    elif not state.schema.columns:
        console.print("Its columns are not known: no event has told them since.")
    else:
        _show_columns(console, pipeline, answer.table, state.schema)
    if state.doubt is not None:
        console.print(f"Not proven: {state.doubt}.", soft_wrap=True)
    numbers = answer.later if since else range(len(answer.states))
    if not numbers:
        console.print("Nothing has changed since.")
        return
    shown = table_of("what changed since" if since else "what changed when", texts=_TEXTS, numbers=())
    for number in numbers:
        one = answer.states[number]
        shown.add_row(
            str(one.position), f"{answer.times[number]:%Y-%m-%d %H:%M:%S}", _window(pipeline, one),
            _text(_words(answer, number)),
        )  # fmt: skip
    console.print(shown)


def _text(text: str) -> Text:
    """Return a text in which characters that would steer a terminal are written out."""
    shown = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return Text("".join(shown), overflow="fold")


_TEXTS = ("position", "time (UTC)", "window", "change")


def _show_columns(console: Console, pipeline: Pipeline, table: TableId, schema: TableSchema) -> None:
    key, rule_of = (
        {folded(name): place for place, name in enumerate(schema.key, 1)},
        rule_finder(pipeline, pipeline.settings.routes.lake_table(table)),
    )
    shown = table_of("", texts=("column", "type", "key", "NULL", "default", "character set", "more"), numbers=())
    for column in schema.columns:
        hidden = rule_of(column.name) is not None
        place = key.get(folded(column.name))
        shown.add_row(
            _text(column.name),
            _text(column.type or _UNKNOWN),
            "" if place is None else str(place),
            _nullable(column, is_key=place is not None),
            _text(_default(column, hidden=hidden)),
            _charset(column),
            ", ".join(_flags(column)),
        )
    shown.title = None
    console.print(shown)


def _nullable(column: SchemaColumn, *, is_key: bool) -> str:
    if is_key:
        return "no"
    return _UNKNOWN if isinstance(column, ToldColumn) else "yes" if column.nullable else "no"


def _default(column: SchemaColumn, *, hidden: bool) -> str:
    if isinstance(column, ToldColumn):
        return _UNKNOWN
    if column.default is None:
        return ""
    return "(a rule hides it)" if hidden else column.default


def _charset(column: SchemaColumn) -> str:
    if column.charset is not None or isinstance(column, ToldColumn):
        return column.charset or _UNKNOWN
    return _UNKNOWN if DeclaredType(type_name(column.type)).has_charset else ""


def _flags(column: SchemaColumn) -> list[str]:
    flags = {"generated": column.generated, "invisible": column.invisible, "AUTO_INCREMENT": column.auto_increment}
    return [name for name, has_it in flags.items() if has_it]


def _origin(pipeline: Pipeline, answer: SchemaAnswer, number: int) -> str:
    state = answer.states[number]
    gtid = None if state.statement is None else state.statement.gtid
    named = "" if gtid is None else f" ({gtid})"
    place = f"{answer.times[number]:%Y-%m-%d %H:%M:%S} UTC, window {_window(pipeline, state)}"
    return f"since {state.position}{named}, {place}: {_words(answer, number)}"


def _words(answer: SchemaAnswer, number: int) -> str:
    """Return in words what led to a state, and why it is not proven."""
    state = answer.states[number]
    if state.statement is None:
        before = answer.states[number - 1].schema if number else None
        words = told_words(before, state.schema or TableSchema(()))
    else:
        words = all_words(state.changes)
    if state.statement is not None and state.statement.is_first_state:
        words = f"definition before a full load; {words}"
    return words if state.doubt is None or state.doubt in words else f"{words}; not proven: {state.doubt}"


def _window(pipeline: Pipeline, state: SchemaState) -> str:
    return "" if state.window_start is None else pipeline.grid.of_start(state.window_start).key
