"""Files of the lake that are damaged, found where they are read: the error names the file.

Whatever a reader of Parquet or Avro raises may come from the file, from the way to it, or from the code that works on its rows.
A file is damaged if its bytes can be read and reading it by itself fails, and nothing else is asked before it is called so.

pyiceberg reads Avro without looking at the ends of its buffers, and takes a file that was cut short for a shorter one. So the
frame of each Avro file is looked at first. This is not pyiceberg's documented interface; a test pins it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.decoder import StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.file import AvroFile, Block
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, ServerError
from pyiceberg.io import FileIO, InputFile, load_file_io
from pyiceberg.io import pyarrow as reading
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, read_manifest_list
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.typedef import Identifier

from dts_assets.errors import DtsAssetsError
from dts_assets.errors.damage import DamagedFileError, MissingFileError, remember_folders
from dts_assets.store.table_folders import folders_of

_CHUNK = 1 << 20
_MAGIC, _SYNC = b"Obj\x01", 16
_METADATA_FILE = re.compile(r"[a-z0-9]+:/\S+\.metadata\.json\b")
_LOCK = threading.Lock()
_DONE: list[bool] = []
_LOOKING = threading.local()


def opened(catalog: Catalog, identifier: Identifier, key: Sequence[str]) -> Table:
    """Return the table of an asset key as it is now, and remember its folders.

    Raises:
        NoSuchTableError: There is no such table.
        DamagedFileError: Its metadata are damaged.
    """
    try:
        table = catalog.load_table(identifier)
    except DamagedFileError as error:
        remember_folders(key, [error.path.rpartition("/metadata/")[0]])
        raise
    remember_folders(key, folders_of(table))
    return table


def with_named_metadata(catalog: Catalog) -> Catalog:
    """Let a catalog that is a server name a table's metadata that are damaged or missing.

    Such a server answers as if it had a fault, or as if there were no such table, and names the file. So we read it, too.
    """
    load = catalog.load_table

    def load_table(identifier: str | Identifier) -> Table:
        try:
            return load(identifier)
        except (NoSuchTableError, ServerError) as error:
            found = None
            if (named := _METADATA_FILE.search(str(error))) is not None:
                with suppress(OSError):  # keys that the server vends are not known without the table
                    found = damage_of(load_file_io(catalog.properties, named[0]).new_input(named[0]))
            if found is None:
                raise
            raise found from None

    catalog.load_table = load_table  # type: ignore[method-assign]
    return catalog


@contextmanager
def damage_named(source: InputFile) -> Iterator[None]:
    """Name the file that is read in the block, if it is damaged.

    Raises:
        DamagedFileError: The block raised an error, and the file cannot be read by itself either.
        DtsAssetsError: The block raised it.
    """
    try:
        yield
    except DtsAssetsError:
        raise
    except Exception:
        found = damage_of(source)
        if found is None:
            raise
        raise found from None


def damage_of(source: InputFile, *, size: int | None = None, rows: int | None = None) -> DamagedFileError | None:
    """Return what is wrong with a file, None if nothing is.

    ``size`` and ``rows`` are the bytes and rows that it has by what names it, None where that is not known.

    Raises:
        OSError: The store does not give the file.
    """
    path = source.location
    _LOOKING.is_on = True
    try:
        _read(source, rows)
    except Exception as error:
        kind = type(error).__name__
    else:
        kind = ""
    finally:
        _LOOKING.is_on = False
    if not kind and size is None:
        return None
    try:
        with source.open() as stream:
            there = sum(len(chunk) for chunk in iter(lambda: stream.read(_CHUNK), b"")) if kind else len(source)
    except FileNotFoundError:
        return MissingFileError(path)
    if size is not None and there != size:
        return DamagedFileError(path, f"it has {there:,} bytes, and {size:,} were written")
    if not there:
        return DamagedFileError(path, "it is empty")
    return DamagedFileError(path, f"its content is damaged ({kind})") if kind else None


def _read(source: InputFile, rows: int | None) -> None:
    """Read a whole file by its kind, and keep nothing.

    Raises:
        ValueError: It has another number of rows than is known.
        Exception: It cannot be read.
    """
    name = source.location.rpartition("/")[2]
    if name.endswith(".metadata.json") or name.endswith(".metadata.json.gz"):
        FromInputFile.table_metadata(source)
    elif name.endswith(".avro"):
        if name.startswith("snap-"):
            list(read_manifest_list(source))
        else:
            _manifest(source)
    elif name.endswith(".parquet"):
        with source.open() as stream, pq.ParquetFile(stream, page_checksum_verification=True) as opened:
            found = sum(batch.num_rows for batch in opened.iter_batches())
            if found != opened.metadata.num_rows or (rows is not None and found != rows):
                raise ValueError("it has another number of rows")


def _manifest(source: InputFile) -> None:
    class _Io:
        def new_input(self, _: str) -> InputFile:
            return source

    ManifestFile.from_args(manifest_path=source.location).fetch_manifest_entry(_Io(), discard_deleted=False)  # type: ignore[arg-type]


def name_damage() -> None:
    """Let pyiceberg's readers name the files that are damaged, of metadata and of rows."""
    with _LOCK:
        if _DONE:
            return
        _DONE.append(True)
        AvroFile.__enter__ = _named(_entered)  # type: ignore[method-assign]
        AvroFile.__next__ = _named(AvroFile.__next__)  # type: ignore[method-assign, assignment]
        AvroFile._read_block = _read_block  # type: ignore[method-assign, assignment]
        reading._task_to_record_batches = _named_rows(reading._task_to_record_batches)
        reading._read_deletes = _named_deletes(reading._read_deletes)  # type: ignore[assignment]
        reading._get_file_format = _with_checksums(reading._get_file_format)  # type: ignore[assignment]


def _named(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(method)
    def call(file: Any) -> Any:
        try:
            return method(file)
        except (StopIteration, DtsAssetsError):
            raise
        except Exception:
            found = None if getattr(_LOOKING, "is_on", False) else damage_of(file.input_file)
            if found is None:
                raise
            raise found from None

    return call


class _Content:
    """The content of a file that was read already, in the place of the file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def open(self) -> BytesIO:
        """Return a stream of the content."""
        return BytesIO(self._content)


def _entered(file: Any, *, enter: Callable[[Any], Any] = AvroFile.__enter__) -> Any:
    """Begin with an Avro file whose frame is whole."""
    source = file.input_file
    with source.open() as stream:
        content = stream.read()
    _require_frame(content)
    file.input_file = _Content(content)
    try:
        return enter(file)
    finally:
        file.input_file = source


def _require_frame(content: bytes) -> None:
    """Refuse an Avro file whose header and blocks do not follow one another to its end.

    Raises:
        ValueError: Something else stands where the end of a block should.
        EOFError: The file ends before its header does.
    """
    at = StreamingBinaryDecoder(content)
    magic, count = at.read(len(_MAGIC)), at.read_int()
    while count:
        if count < 0:
            at.read_int()
        for _ in range(2 * abs(count)):
            at.read_bytes()
        count = at.read_int()
    sync = at.read(_SYNC)
    while magic == _MAGIC and at.tell() < len(content):
        _, size = at.read_int(), at.read_int()
        if not 0 <= size <= len(content) - at.tell() - _SYNC:
            raise ValueError("a block ends behind the file")
        at.skip(size)
        if at.read(_SYNC) != sync:
            raise ValueError("a block does not end where it should")
    if magic != _MAGIC:
        raise ValueError("it does not begin as an Avro file")


def _read_block(file: Any) -> int:
    """Begin with the next block of an Avro file, and return the number of its records.

    Raises:
        EOFError: There is no further one.
        ValueError: The records of the block before have other bytes than it.
    """
    if file.block:
        if file.block.block_decoder.tell() != file.block.length:
            raise ValueError("the records of a block do not end where it does")
        file.decoder.read(_SYNC)
    count, content = file.decoder.read_int(), file.decoder.read_bytes()
    if codec := file.header.compression_codec():
        content = codec.decompress(content)
    file.block = Block(reader=file.reader, block_records=count, block_decoder=new_decoder(content))
    file.block.length = len(content)
    return int(count)


def _named_rows(read: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a reader of one file's rows that names the file."""

    def batches(io: FileIO, task: FileScanTask, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        found = read(io, task, *arguments, **named)
        while True:
            with damage_named(io.new_input(task.file.file_path)):
                batch = next(found, None)
            if batch is None:
                return
            yield batch

    return batches


def _named_deletes(read: Callable[[FileIO, DataFile], Any]) -> Callable[[FileIO, DataFile], Any]:
    """Return a reader of a delete file that names the file."""

    def deletes(io: FileIO, file: DataFile) -> Any:
        with damage_named(io.new_input(file.file_path)):
            return read(io, file)

    return deletes


def _with_checksums(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of file formats that looks at the checksums of pages."""

    def format_of(kind: FileFormat, **options: Any) -> Any:
        checked = {"page_checksum_verification": True} if kind == FileFormat.PARQUET else {}
        return make(kind, **options, **checked)

    return format_of
