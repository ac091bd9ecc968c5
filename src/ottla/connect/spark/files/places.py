"""Directories for manifests and files: on a local disk by Python, elsewhere by Hadoop's file systems."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.spark.files.manifest import Place
from ottla.connect.spark.java import class_of
from ottla.connect.spark.ledger import LedgerError
from ottla.pipeline.spark.paths import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3: Final = ("s3a", "s3", "s3n")


class LocalPlace:
    """A directory of a local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, directory: str) -> list[str]:
        """See Place."""
        try:
            return sorted(os.listdir(self._root / directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str, most_bytes: int) -> bytes:
        """See Place."""
        with (self._root / path).open("rb") as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise LedgerError(f"{path} is longer than {most_bytes} bytes")
        return data

    def create(self, path: str, data: bytes) -> bool:
        """See Place: written under another name, then linked, which fails where the name is taken."""
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
        finally:
            temporary.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def rename(self, source: str, target: str) -> None:
        """See Place."""
        final = self._root / target
        final.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._root / source, final)
            checksum = Path(self._root / source)
            checksum.with_name(f".{checksum.name}.crc").unlink(missing_ok=True)
            return
        if not final.exists():
            raise LedgerError(f"{source} is gone, and {target} is not there: files were removed by hand")

    def remove(self, path: str) -> None:
        """See Place."""
        found = self._root / path
        if found.is_dir():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)


class HadoopPlace:
    """A directory of a file system of Hadoop, through the JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        from pyspark import SparkContext

        self._jvm: Any = SparkContext._jvm
        self._root = root.rstrip("/")
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._fs: Any = self._path("").getFileSystem(self._conf)

    def names(self, directory: str) -> list[str]:
        """See Place."""
        own = str(self._path(directory).toUri().getPath())
        try:
            found = [each.getPath() for each in self._fs.listStatus(self._path(directory))]
            return sorted(str(each.getName()) for each in found if str(each.toUri().getPath()) != own)
        except Exception as problem:
            if class_of(problem) == "FileNotFoundException":
                return []
            raise

    def read(self, path: str, most_bytes: int) -> bytes:
        """See Place."""
        length = self._fs.getFileStatus(self._path(path)).getLen()
        if length > most_bytes:
            raise LedgerError(f"{path} is longer than {most_bytes} bytes")
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readNBytes(int(length)))
        finally:
            stream.close()

    def create(self, path: str, data: bytes) -> bool:
        """See Place. On S3 it is a conditional write, elsewhere a rename that replaces nothing."""
        target = self._path(path)
        if self._root.partition(":")[0] in _S3:
            return self._create_on_s3(target, data)
        temporary = self._path(f"{path}.{uuid.uuid4().hex}.tmp")
        stream = self._fs.create(temporary, False)
        try:
            stream.write(data)
            if hasattr(stream, "hsync"):
                stream.hsync()
        finally:
            stream.close()
        try:
            if self._fs.exists(target):
                return False
            # HDFS refuses a rename onto a file that is there, in one step
            return bool(self._fs.rename(temporary, target))
        finally:
            self._fs.delete(temporary, False)

    def _create_on_s3(self, target: Any, data: bytes) -> bool:
        builder = self._fs.createFile(target).overwrite(False).recursive()
        stream = builder.opt("fs.option.create.conditional.overwrite", True).build()
        stream.write(data)
        try:
            stream.close()
        except Exception as problem:
            if class_of(problem) in ("FileAlreadyExistsException", "RemoteFileChangedException"):
                return False
            raise
        return True

    def rename(self, source: str, target: str) -> None:
        """See Place."""
        staged, final = self._path(source), self._path(target)
        if not self._fs.exists(staged):
            if not self._fs.exists(final):
                raise LedgerError(f"{source} is gone, and {target} is not there: files were removed by hand")
            return
        self._fs.mkdirs(final.getParent())
        if self._fs.exists(final):  # a copy that a kill has cut short, on file systems that copy
            self._fs.delete(final, False)
        if not self._fs.rename(staged, final):
            raise LedgerError(f"{source} can't be renamed to {target}")

    def remove(self, path: str) -> None:
        """See Place."""
        self._fs.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{path}" if path else self._root)


def place_of(spark: SparkSession, root: str) -> Place:
    """The directory of a URL."""
    local = local_path(root)
    return HadoopPlace(spark, root) if local is None else LocalPlace(local.absolute())


def _sync(directory: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can open a directory
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
