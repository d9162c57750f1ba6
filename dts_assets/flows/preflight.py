"""The look at everything that a configuration names, before anything runs: paths, the lake, Java, a port.

Nothing is made and no network is asked, unless the caller says ``connect``. Modules that take their time to load are imported
only then, because `dts-assets config check` answers within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from dts_assets.errors import ConfigErrors, DtsAssetsError, UnwritableLakeError
from dts_assets.errors.machine import MissingJarsError, UnwritableHomeError
from dts_assets.settings.load import dagster_home, mistake_at
from dts_assets.settings.models import Settings, Subscription
from dts_assets.sources.capture_folder import capture_files, require_recording
from dts_assets.store.jars import FETCHED, missing_jars, packages_of
from dts_assets.store.machine import require_free_port, require_java, require_master, require_near
from dts_assets.store.places import folder_trouble, require_catalog_file, require_lake_folder


def find_troubles(
    settings: Settings, config: Path, *, port: int | None = None, connect: bool = False
) -> list[DtsAssetsError]:
    """Return every trouble that a run with these settings would meet: sources, the lake, then this machine.

    ``port`` is one on which a server is to start. With ``connect`` brokers are asked for their topics, recordings are read,
    the newest messages of both are looked at, a catalog that is a server is asked for its namespaces, and a Spark master is
    connected to.
    """
    found = []
    for look in _looks(settings, config, port=port, connect=connect):
        try:
            look()
        except DtsAssetsError as error:
            found.append(error)
    return list({str(error): error for error in found}.values())


def require_spark(settings: Settings) -> None:
    """Refuse a machine on which Spark cannot start, and a cluster or a server that does not answer.

    A Spark Connect server brings a Java of its own.

    Raises:
        MissingJavaError: There is no Java, or it is too old.
        UnreachableMasterError: Nobody listens at the master's address.
    """
    _look_at_java(settings)
    _ask_master(settings)


def _look_at_java(settings: Settings) -> None:
    """Look for a Java, if this machine is to start Spark.

    Raises:
        MissingJavaError: There is no Java, or it is too old.
    """
    if settings.spark.remote is None:
        require_java()


def unfetched_jars(settings: Settings) -> MissingJarsError | None:
    """Return which Java packages Spark fetches at its first start on this machine; None if there is none.

    That is no trouble where a repository of Maven answers, as on a new machine with a network.
    """
    if settings.spark.remote is not None:
        return None
    lake, conf = settings.lake, settings.spark.conf
    scheme, separator, _ = lake.warehouse.partition("://")
    needed = packages_of(lake.catalog.type, scheme if separator else "file", conf)
    named = [*needed, *filter(None, conf.get("spark.jars.packages", "").split(","))]
    missing = missing_jars(",".join(named), conf)
    return MissingJarsError(missing, str(FETCHED.expanduser())) if missing else None


def _ask_master(settings: Settings) -> None:
    """Ask a cluster's master, or a Spark Connect server, for a connection.

    Raises:
        UnreachableMasterError: Nobody listens at its address.
    """
    require_master(settings.spark.address)


def _looks(settings: Settings, config: Path, *, port: int | None, connect: bool) -> Iterator[Callable[[], object]]:
    for subscription in settings.subscriptions.values():
        yield partial(_look_at_source, subscription)
        if subscription.schema_file is not None:
            yield partial(_look_at_schema, subscription)
        yield partial(_look_at_sockets, subscription, settings.spark.address)
        if connect:
            yield partial(_ask_source, subscription, config)
    yield partial(_look_at_lake, settings)
    if connect and settings.lake.catalog_file is None:
        yield partial(_ask_catalog, settings)
    yield partial(_look_at_java, settings)
    if connect:
        yield partial(_ask_master, settings)
    yield partial(require_home, config)
    if port is not None:
        yield partial(require_free_port, port, what="Dagster")


def _look_at_schema(subscription: Subscription) -> None:
    """Make the format from its schema file.

    Raises:
        WireFormatError: The file cannot be read, or does not describe the format's messages.
    """
    from dts_assets.wire.formats import wire_format

    wire_format(subscription.format, subscription.format_settings)


def _look_at_sockets(subscription: Subscription, master: str) -> None:
    """Look whether the executors of Spark reach the database that tables are copied from.

    Raises:
        DatabaseError: They are on other machines than its socket.
    """
    jdbc = None if subscription.bootstrap is None else subscription.bootstrap.source.jdbc
    if jdbc is not None and jdbc.place.socket is not None:
        require_near(jdbc.place, master)


def _look_at_source(subscription: Subscription) -> None:
    """Look for the files of a capture; one that is still being recorded may come later.

    Raises:
        CaptureError: The folder cannot be used.
    """
    capture = subscription.source.capture
    if capture is not None:
        (require_recording if capture.complete else capture_files)(capture.path)


def _ask_source(subscription: Subscription, config: Path) -> None:
    """Ask a source for its offsets, and look at its newest messages.

    Raises:
        SourceError: The source is not what the settings describe.
        ConfigErrors: The messages look like another format.
    """
    from dts_assets.flows.pipeline import open_source
    from dts_assets.flows.recognition import recognise_source, way_out

    kafka = subscription.source.kafka
    if kafka is not None:
        from dts_assets.sources.kafka_source import KafkaSource

        KafkaSource.of(kafka, subscription.partitions).check()
    with suppress(FileNotFoundError):  # a growing capture whose files move while they are listed
        found = recognise_source(open_source(subscription), subscription)
        if found.contradicts(subscription.format):
            place = ("subscriptions", subscription.name, "format")
            said = f"the newest messages are not of the format {subscription.format}: {found.sentence}"
            raise ConfigErrors((mistake_at(config, place, said, way_out(found)),))


def _look_at_lake(settings: Settings) -> None:
    """Look whether the warehouse and the file of a SQLite catalog can be made or written.

    Raises:
        UnwritableLakeError: One of them cannot.
    """
    lake = settings.lake
    local = lake.warehouse.removeprefix("file://")
    if "://" not in local:
        require_lake_folder(Path(local))
    if lake.catalog_file is not None:
        require_catalog_file(lake.catalog_file)


def _ask_catalog(settings: Settings) -> None:
    """Ask a catalog that is a server for its namespaces.

    Raises:
        UnwritableLakeError: It does not answer as a catalog does.
    """
    from dts_assets.flows.pipeline import lake_location
    from dts_assets.store.catalog import open_catalog

    try:
        open_catalog(lake_location(settings)).list_namespaces()
    except (
        Exception
    ) as error:  # each kind of catalog has errors of its own, and their texts may hold addresses with secrets
        reason = f"its {settings.lake.catalog.type} catalog does not answer ({type(error).__name__})"
        raise UnwritableLakeError(settings.lake.warehouse, reason) from None


def require_home(config: Path) -> None:
    """Refuse a home of Dagster's that cannot be made or written.

    Raises:
        UnwritableHomeError: It cannot.
    """
    home = dagster_home(config)
    if (trouble := folder_trouble(home)) is not None:
        raise UnwritableHomeError(str(home), trouble)
