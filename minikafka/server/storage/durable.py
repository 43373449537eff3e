"""Writes of small files: the write is synchronous, and only the flush is awaited.

``Files.replace`` flushes before it renames the file. If two calls overlap, the older content could
be renamed last. Here the content is replaced synchronously, so the newest one stays. A power loss
before the flush may leave a damaged file; all readers of these files handle that.
"""

from __future__ import annotations

from minikafka.kernel.ports import Files


async def write_durably(files: Files, path: str, data: bytes) -> None:
    """Write a file, and return when this or a newer content survives a power loss. Raises
    OSError."""
    files.replace_unsynced(path, data)
    await flush_path(files, path)


async def flush_path(files: Files, path: str) -> None:
    """Flush a file and the directory that contains it. Raises OSError."""
    file = files.open(path)
    try:
        await file.flush()
    finally:
        file.close()
    await files.flush_directory(path.rpartition("/")[0])
