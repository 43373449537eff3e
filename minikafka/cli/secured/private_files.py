"""Files with secrets: no other user of the machine may read them, at any moment."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from minikafka.kernel.config import ConfigError

PRIVATE_UMASK: Final = 0o077  # for processes of which every new file shall be private
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def make_private_folder(folder: Path) -> None:
    """Create the folder, or check that it is private. Raises ConfigError if another user owns it or
    may enter it: what is inside may be known already."""
    try:
        folder.mkdir(mode=_FOLDER_MODE)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{folder} is not a folder of this user") from None
        if stat.S_IMODE(found.st_mode) & PRIVATE_UMASK:
            raise ConfigError(
                f"other users may enter {folder}, which contains keys and passwords: delete it for "
                f"new ones, or run chmod -R go= {folder} if you trust them"
            ) from None


def write_private(path: Path, text: str) -> None:
    """Replace a file at once. It is private from the start, whatever its mode was before."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
