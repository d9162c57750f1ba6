"""The command ``dts-assets sniff``, which looks into an unknown source and writes a configuration for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.console import Console

from dts_assets.cli.sniff_shown import show
from dts_assets.errors import NothingFoundError, WireFormatError
from dts_assets.errors.sources import BrokerError
from dts_assets.flows.sniffing import Sniffed, sniff
from dts_assets.model.formats import FormatSettings
from dts_assets.planning.suggested_windows import SuggestedWindows, suggest_windows
from dts_assets.settings.formats import registered_formats, traits_of
from dts_assets.settings.load import settings_of_text
from dts_assets.settings.sources import Kafka
from dts_assets.settings.suggested_file import SuggestedSubscription, file_text
from dts_assets.sources.capture_source import CaptureSource
from dts_assets.sources.capture_topics import recorded_topics
from dts_assets.sources.source import Source
from dts_assets.wire.formats import wire_format

_WIDTH = 160
"""The width of output that is no terminal."""

_SECRET = re.compile(r"password|secret|\.pem$|oauthbearer\.config")
_FILE = re.compile(r"ssl\.\w+\.location")
_REFERENCE = re.compile(r"\$\{\w+\}")
_NAME = "the suggested pipeline.yaml"
_UNUSUAL = re.compile(r"[^a-z0-9]+")
_RETENTION = timedelta(days=1)


def _client_settings(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return settings of the Kafka client by key.

    Raises:
        click.BadParameter: One is not KEY=VALUE, or is a secret that would stand in a file.
    """
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not (key and equals):
            raise click.BadParameter("write KEY=VALUE")  # without the text, which may be a secret
        if _SECRET.search(key) and not _REFERENCE.fullmatch(text):
            raise click.BadParameter(
                f"write {key}='${{NAME}}' and set NAME in the environment, so that it is in no file"
            )
        found[key] = str(Path(text).expanduser().resolve()) if _FILE.fullmatch(key) and "${" not in text else text
    return found


@dataclass(frozen=True)
class _Asked:
    """The options of the command: where to look, and how."""

    folder: Path | None
    servers: str | None
    topics: tuple[str, ...]
    group: str | None
    client: dict[str, str] = field(repr=False)
    schema: Path | None
    chosen: str | None
    name: str | None
    out: Path | None

    def __post_init__(self) -> None:
        """Refuse options that do not say one place.

        Raises:
            click.UsageError: They say none, or two, or a part of one.
        """
        if (self.folder is None) == (self.servers is None):
            raise click.UsageError("Say where messages are: a FOLDER, or --bootstrap-servers with --topic.")
        if self.servers is None and (self.topics or self.group or self.client):
            raise click.UsageError("--topic, --group and --setting are for --bootstrap-servers.")
        if self.servers is not None and not self.topics:
            raise click.UsageError("Say which topic: --topic, once for each of several.")
        if self.out is not None and self.out.exists():
            raise click.UsageError(f"{self.out} is there already; name another file.")

    @property
    def home(self) -> Path:
        """The folder that the file is written for."""
        return (Path.cwd() if self.out is None else self.out.parent).resolve()

    @property
    def format_settings(self) -> FormatSettings:
        """The settings that formats are made from.

        Raises:
            click.UsageError: The schema file cannot be read.
        """
        try:
            return FormatSettings(schema=None if self.schema is None else self.schema.read_bytes())
        except OSError as error:
            raise click.UsageError(f"{self.schema} cannot be read ({error.strerror}).") from None

    @property
    def base(self) -> SuggestedSubscription:
        """The subscription as far as the options say it.

        What is to be found out has a value that passes all checks.
        """
        plain = next(name for name in registered_formats() if not traits_of(name).needs_schema)
        topics = tuple((topic, 1) for topic in self.topics) or (("", 1),)
        called = self.name or _called(self.topics[0] if self.topics else (self.folder or Path()).resolve().name)
        noon = datetime(2000, 1, 1, tzinfo=UTC)
        return SuggestedSubscription(
            called, plain, topics, timedelta(hours=1), noon, None, servers=self.servers or "", group=self.group,
            config=self.client, capture=None if self.folder is None else self.written(self.folder),
        )  # fmt: skip

    def written(self, path: Path) -> str:
        """Return a path as the file names it: relative where it lies below the file's folder."""
        found = path.resolve()
        return f"./{found.relative_to(self.home)}" if found.is_relative_to(self.home) else str(found)


@click.command("sniff")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--bootstrap-servers", "servers", help="A broker in place of a folder: host:port, several with commas.")
@click.option("--topic", "topics", multiple=True, help="A topic of the broker. Several are numbered in this order.")
@click.option("--group", help="The consumer group that the vendor gave. Its offsets are not moved.")
@click.option(
    "--setting",
    "client",
    multiple=True,
    callback=_client_settings,
    metavar="KEY=VALUE",
    help="A setting of the Kafka client, by librdkafka's name. A secret is written '${NAME}', a variable of the environment.",
)
@click.option("--schema", type=click.Path(path_type=Path, dir_okay=False), help="The schema file of an Avro format.")
@click.option("--format", "chosen", help="Read the messages as this format, whatever they look like.")
@click.option("--name", help="The subscription's name. Default: made from the topic's or the folder's.")
@click.option(
    "--messages", type=click.IntRange(2), default=2000, show_default=True, help="Of each Kafka partition, at most."
)
@click.option(
    "--seconds", type=click.FloatRange(1), default=30.0, show_default=True, help="Read messages for so long, at most."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write pipeline.yaml to this new file.")
def sniff_command(
    *,
    folder: Path | None,
    servers: str | None,
    topics: tuple[str, ...],
    group: str | None,
    client: dict[str, str],
    schema: Path | None,
    chosen: str | None,
    name: str | None,
    messages: int,
    seconds: float,
    out: Path | None,
) -> None:
    """Look into a FOLDER or topics that nobody knows, and write a pipeline.yaml for them.

    FOLDER is a recording, with Parquet files. Shown are the format with its evidence, Kafka partitions with offsets and times,
    and the tables in the first and the last messages of each. No offsets are committed, and no values are shown.
    """
    asked = _Asked(folder, servers, topics, group, client, schema, chosen, name, out)
    if chosen is not None:
        traits_of(chosen)  # a name that nobody registers is an error before anything is read
    source, counted = _opened(asked)
    found = sniff(source, counted, asked.format_settings, chosen=chosen, messages=messages, seconds=seconds)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    windows = None if found.first is None or found.last is None else _windows(found, goes_on=servers is not None)
    show(console, found, needs_schema=schema is None)
    text = _written(asked, found, windows, retention=_retention(source))
    if out is None:
        click.echo(f"\npipeline.yaml:\n\n{text}", nl=False)
        return
    _write(out, text)
    click.echo(f"\nwritten to {out}; next: dts-assets run --config {out}")


def _write(out: Path, text: str) -> None:
    """Write a new file.

    Raises:
        click.UsageError: It cannot be written.
    """
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.UsageError(f"{out} cannot be written ({error.strerror}).") from None


def _opened(asked: _Asked) -> tuple[Source, tuple[tuple[str, int], ...]]:
    """Return the source with its topics and their numbers of partitions."""
    if asked.folder is not None:
        topics = recorded_topics(asked.folder)
        total = sum(count for _, count in topics)
        several = topics if len(topics) > 1 else ()
        return CaptureSource(str(asked.folder), total, complete=True, topics=several), topics
    from dts_assets.sources.kafka_source import KafkaSource

    settings = settings_of_text(file_text(replace(asked.base, remarks=())), name=_NAME, folder=asked.home)
    (subscription,) = settings.subscriptions.values()
    kafka = subscription.source.kafka
    assert isinstance(kafka, Kafka), "the text names a broker"
    counts = KafkaSource.of(kafka, 1).counts()
    return KafkaSource.of(kafka, sum(counts.values())), tuple(counts.items())


def _windows(found: Sniffed, *, goes_on: bool) -> SuggestedWindows:
    assert found.first is not None
    assert found.last is not None
    return suggest_windows(found.first, found.last, goes_on=goes_on)


def _retention(source: Source) -> timedelta | None:
    """Return how long the topics of a broker keep messages.

    It is a day where the broker does not say, and None for a recording.
    """
    if isinstance(source, CaptureSource):
        return None
    from dts_assets.sources.kafka_retention import topic_retention
    from dts_assets.sources.kafka_source import KafkaSource

    assert isinstance(source, KafkaSource)
    try:
        age = topic_retention(source.place).age
    except BrokerError:
        age = None
    return _RETENTION if age is None else timedelta(seconds=max(1, age // timedelta(seconds=1)))


def _written(asked: _Asked, found: Sniffed, windows: SuggestedWindows | None, *, retention: timedelta | None) -> str:
    """Return the text of the configuration.

    Raises:
        NothingFoundError: There are no messages.
        WireFormatError: They are of no format that is read.
        ConfigErrors: The text has mistakes, such as more Kafka partitions than a subscription can have.
    """
    if windows is None or not (found.recognition.messages or asked.chosen):
        raise NothingFoundError(
            "The source", "message that tells its format", "record some, or look again when there are"
        )
    formats = (asked.chosen,) if asked.chosen else found.recognition.formats
    if not formats:
        best = found.recognition.best
        raise WireFormatError(
            best[0].title if best else "of these messages", f"this version decodes {', '.join(registered_formats())}"
        )
    name = found.format or formats[0]
    needs_schema = traits_of(name).needs_schema
    suggested = replace(
        asked.base,
        format=name,
        others=tuple(one for one in formats if one != name),
        topics=found.topics,
        every=windows.every,
        start=windows.start,
        end=windows.end,
        schema=(asked.written(asked.schema) if asked.schema else "./Record.avsc") if needs_schema else None,
        retention=retention,
        time_zone=traits_of(name).clock_zone if _depends_on_zone(name, asked.format_settings) else None,
        remarks=_remarks(found, windows, needs_schema=needs_schema and asked.schema is None),
    )
    text = file_text(suggested)
    settings_of_text(text, name=_NAME, folder=asked.home)
    return text


def _depends_on_zone(name: str, settings: FormatSettings) -> bool:
    """Tell whether a format reads times that name no zone."""
    if traits_of(name).needs_schema and settings.schema is None:
        return False
    prints = {
        wire_format(name, replace(settings, source_time_zone=zone)).changes_fingerprint for zone in ("+00:00", "+08:00")
    }
    return len(prints) > 1


def _remarks(found: Sniffed, windows: SuggestedWindows, *, needs_schema: bool) -> list[str]:
    remarks = [f"{found.recognition.sentence}."]
    if needs_schema:
        remarks.append("Put the schema file that the vendor's demo brings beside this file.")
    if windows.early:
        remarks.append("Some messages are dated before the year 2000; no window has them.")
    if found.rejected:
        remarks.append(f"{sum(found.rejected.values())} of the messages that were looked at cannot be read.")
    return remarks


def _called(text: str) -> str:
    """Return a subscription's name made of a topic's or a folder's: ``topic_subs_1`` of ``topic-subs-1``."""
    name = _UNUSUAL.sub("_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"topic_{name}".rstrip("_")
