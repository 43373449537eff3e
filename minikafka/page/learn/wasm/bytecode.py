"""Compiles the sources in a zip archive. It runs in Pyodide, as bytecode belongs to one Python."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from importlib import util
from marshal import dumps

_UNCHECKED_HASH = b"\x01\x00\x00\x00" + bytes(8)  # flags and hash of PEP 552: there is no source


def compiled(archive: bytes, level: int, without: Collection[str] = ()) -> bytes:
    """Return the archive with a ``.pyc`` in place of each ``.py``. ``level`` is the optimization
    that ``compile`` takes; files below the top-level names ``without`` are left out."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as sources,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target,
    ):
        for name in sources.namelist():
            if name.partition("/")[0].removesuffix(".py") in without:
                continue
            content = sources.read(name)
            if name.endswith(".py"):
                code = compile(content, name, "exec", dont_inherit=True, optimize=level)
                content = util.MAGIC_NUMBER + _UNCHECKED_HASH + dumps(code)
                name += "c"
            target.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()
