"""Small files that are written at once and made safe against a power loss afterwards.

``Files.replace`` waits in the middle, and meanwhile a newer version could be written which it would
then overwrite with the older one. Here the write is synchronous and only the fsync waits. A power
loss in between may leave a file that cannot be read; every reader of these files copes with that.
"""

from __future__ import annotations

from minikafka.kernel.ports import Files


async def write_durably(files: Files, path: str, data: bytes) -> None:
    """Return when this or a newer content of the file would survive. Raises OSError."""
    files.replace_unsynced(path, data)
    await flush_path(files, path)


async def flush_path(files: Files, path: str) -> None:
    """Flush a file, and its name. Raises OSError."""
    file = files.open(path)
    try:
        await file.flush()
    finally:
        file.close()
    await files.flush_directory(path.rpartition("/")[0])
