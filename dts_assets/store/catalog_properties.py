"""Who gets which property of ``lake.catalog``: pyiceberg, Spark, the tasks, or the process's environment.

Both engines take most of Iceberg's properties by one name. Where they differ, one word in the configuration does for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

_OF_FILE_STORES = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl")
"""The properties with which a client opens a file store; tasks get these and no other."""

_OF_PYICEBERG, _OF_SPARK = ("py-",), ("io-impl", "catalog-impl", "jdbc.")
"""The beginnings of properties for Python alone, and for Java alone."""

_OURS = ("type", "uri", "warehouse")
"""The properties of a SQLite catalog that each engine gets in a form of its own."""

_DELEGATION = "header.X-Iceberg-Access-Delegation"
_RESOLVING_IO = "org.apache.iceberg.io.ResolvingFileIO"
_BUNDLES = {
    "s3": "iceberg-aws-bundle", "s3a": "iceberg-aws-bundle", "gs": "iceberg-gcp-bundle",
    "abfs": "iceberg-azure-bundle", "abfss": "iceberg-azure-bundle",
}  # fmt: skip
_AMAZON = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
_CHECKSUMS = (
    ("AWS_REQUEST_CHECKSUM_CALCULATION", "aws.requestChecksumCalculation"),
    ("AWS_RESPONSE_CHECKSUM_VALIDATION", "aws.responseChecksumValidation"),
)
"""The variables of the environment that clients of S3 read, each with its name among Java's system properties."""

CHECKSUM_VARIABLES = tuple(variable for variable, _ in _CHECKSUMS)
_WHEN_REQUIRED = "when_required"


def for_pyiceberg(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that pyiceberg's catalog gets.

    ``s3.path-style-access: false`` is ``s3.force-virtual-addressing: true`` there: with an endpoint of its own pyarrow puts
    the bucket into the path, which Tencent COS refuses.
    """
    mine = {name: value for name, value in properties.items() if not name.startswith(_OF_SPARK)}
    if properties.get("s3.path-style-access", "").lower() == "false":
        mine.setdefault("s3.force-virtual-addressing", "true")
    return mine


def for_spark(properties: Mapping[str, str], *, scheme: str) -> dict[str, str]:
    """Return the properties that Spark's catalog gets, for a warehouse of a URI scheme: ``s3``, ``file``.

    ``s3.region`` is ``client.region`` there. Where nothing says how files are reached, Iceberg decides by their scheme: its
    catalogs in a database would take Hadoop's classes, which know no S3. A REST catalog is asked to vend credentials, as
    pyiceberg asks it by itself.
    """
    mine = {name: value for name, value in properties.items() if not name.startswith(_OF_PYICEBERG)}
    if "s3.region" in mine:
        mine.setdefault("client.region", mine["s3.region"])
    if scheme != "file":
        mine.setdefault("io-impl", _RESOLVING_IO)
    if mine.get("type") == "rest":
        mine.setdefault(_DELEGATION, "vended-credentials")
    return mine


def without_own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a SQLite catalog's properties less those that each engine gets in its own form."""
    return {name: value for name, value in properties.items() if name not in _OURS}


def of_file_stores(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties with which a client opens a file store: ``{"s3.endpoint": ...}``.

    No secret of a catalog is among them.
    """
    return {name: str(value) for name, value in properties.items() if name.startswith(_OF_FILE_STORES)}


def bundle_of(scheme: str) -> str | None:
    """Return the name of the Java package with which Iceberg reaches a store; None where it needs none."""
    return _BUNDLES.get(scheme)


def checksum_environment(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for clients of an S3 store that is not Amazon's: checksums where they are required.

    Clients of S3 add checksums of a newer kind since 2025. Tencent COS, Huawei OBS and older stores refuse such requests.
    """
    return dict.fromkeys(CHECKSUM_VARIABLES, _WHEN_REQUIRED) if _is_foreign(properties) else {}


def checksum_options(properties: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of Java for such a store; a variable of ``environment`` says otherwise.

    JVMs on other machines do not get this process's environment, and an option of Java comes before a variable.
    """
    told = {**checksum_environment(properties), **environment}
    return tuple(f"-D{name}={told[variable]}" for variable, name in _CHECKSUMS) if _is_foreign(properties) else ()


def _is_foreign(properties: Mapping[str, str]) -> bool:
    """Return whether an S3 store is named that is not Amazon's."""
    endpoint = properties.get("s3.endpoint", "")
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname
    return host is not None and not any(host == one or host.endswith(f".{one}") for one in _AMAZON)
