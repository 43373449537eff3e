"""What a JVM leaves that is killed while it writes the offsets of a query's first batch."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any


def begin_first_offsets(session: Any, checkpoint: Path) -> None:
    """Let Spark's manager of checkpoint files begin to write the offsets of batch 0, and no more.

    It writes to a temporary file, which it would rename when it closes the file."""
    setting = session.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    file_manager = reduce(getattr, setting.split("."), session._jvm)
    offsets = session._jvm.org.apache.hadoop.fs.Path(str(checkpoint / "offsets"))
    files = file_manager(offsets, session._jsc.hadoopConfiguration())
    files.mkdirs(offsets)
    files.createAtomic(session._jvm.org.apache.hadoop.fs.Path(offsets, "0"), False)
    assert list((checkpoint / "offsets").iterdir()), "Spark writes offsets elsewhere first"
