"""Errors that are meant for a person, in one tree.

The number is the exit code that a command ends with; a class without a number has that of its parent. 3 to 9 are outcomes of
commands, such as a failed check, and no errors::

    DtsAssetsError                      1
    ├─ ConfigErrors                     2   every mistake of a pipeline.yaml at once
    ├─ NothingFoundError                    a command was asked to show something that is not there
    ├─ SourceError                      10  where messages come from
    │  ├─ CaptureError                      the folder is not a capture, or not the one that the settings describe
    │  ├─ CaptureGrownError                 a capture that was declared complete has more messages than were stored
    │  └─ BrokerError                       a Kafka broker, or its answer, is not what the settings describe
    │     ├─ UnreachableBrokerError             nobody answers in time; it may later
    │     ├─ BrokerLoginError                   user or password is refused
    │     ├─ BrokerMechanismError               the broker logs in by another SASL mechanism, or not at all
    │     ├─ BrokerCertificateError             the broker's certificate is not trusted
    │     ├─ BrokerDeniedError                  the user lacks a permission
    │     ├─ UnsupportedByBrokerError           the broker is too old for a question
    │     ├─ UnknownTopicError                  there is no such topic
    │     ├─ PartitionCountError                the topics have more or fewer partitions than the settings say
    │     ├─ GroupInUseError                    a client has joined the consumer group, so its offsets cannot be set
    │     ├─ MessagesGoneError                  offsets that the broker no longer has, or never had
    │     └─ RecreatedTopicError                the topic ends before the stored offsets: another topic of the same name
    ├─ LakeError                        11  where tables are kept
    │  ├─ UnwritableLakeError               the warehouse or its catalog cannot be reached or written
    │  ├─ LakeTableError                    one table cannot take, or does not hold, the expected rows
    │  ├─ StaleGenerationError              another run wrote the same rows since this run planned its work
    │  ├─ LakeFormatError                   tables were made by another version of dts-assets, which lays them out otherwise
    │  └─ IncompatibleLakeError             a setting that an existing lake cannot change
    ├─ WindowError                      12  windows that are not ready
    │  ├─ NotClosedError                    windows that nothing has closed yet
    │  ├─ NotReadyError                     the inputs of a window are not there yet
    │  └─ IncompleteWindowError             a window is known to be incomplete, and the configuration says block
    ├─ MachineError                     13  the machine that the command runs on
    │  ├─ MissingJavaError                  no Java that Spark can run on
    │  ├─ MissingPackageError               the package of a command cannot be imported
    │  ├─ PortInUseError                    another program listens on the port of a server
    │  └─ SparkServerError                  a Spark Connect server ended before it answered
    └─ WireFormatError                  14  a wire format cannot be used as asked (bad bytes are quarantined instead)

An error is made from facts, keeps them as attributes and builds its sentence itself: what is wrong, where, and what to do. All of
them survive pickling, because Spark and Dagster carry them between processes. None ever holds a payload or a secret.
"""

from __future__ import annotations

from dts_assets.errors.base import DtsAssetsError
from dts_assets.errors.broker import (
    BrokerCertificateError,
    BrokerDeniedError,
    BrokerError,
    BrokerLoginError,
    BrokerMechanismError,
    GroupInUseError,
    MessagesGoneError,
    PartitionCountError,
    RecreatedTopicError,
    UnknownTopicError,
    UnreachableBrokerError,
    UnsupportedByBrokerError,
)
from dts_assets.errors.commands import NothingFoundError
from dts_assets.errors.configuration import ConfigErrors, ConfigMistake
from dts_assets.errors.formats import WireFormatError
from dts_assets.errors.lake import (
    IncompatibleLakeError,
    LakeError,
    LakeFormatError,
    LakeTableError,
    StaleGenerationError,
    UnwritableLakeError,
)
from dts_assets.errors.machine import (
    MachineError,
    MissingJavaError,
    MissingPackageError,
    PortInUseError,
    SparkServerError,
)
from dts_assets.errors.source import CaptureError, CaptureGrownError, SourceError
from dts_assets.errors.windows import IncompleteWindowError, NotClosedError, NotReadyError, WindowError

__all__ = [
    "BrokerCertificateError",
    "BrokerDeniedError",
    "BrokerError",
    "BrokerLoginError",
    "BrokerMechanismError",
    "CaptureError",
    "CaptureGrownError",
    "ConfigErrors",
    "ConfigMistake",
    "DtsAssetsError",
    "GroupInUseError",
    "IncompatibleLakeError",
    "IncompleteWindowError",
    "LakeError",
    "LakeFormatError",
    "LakeTableError",
    "MachineError",
    "MessagesGoneError",
    "MissingJavaError",
    "MissingPackageError",
    "NotClosedError",
    "NotReadyError",
    "NothingFoundError",
    "PartitionCountError",
    "PortInUseError",
    "RecreatedTopicError",
    "SourceError",
    "SparkServerError",
    "StaleGenerationError",
    "UnknownTopicError",
    "UnreachableBrokerError",
    "UnsupportedByBrokerError",
    "UnwritableLakeError",
    "WindowError",
    "WireFormatError",
]
