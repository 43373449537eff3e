"""The verb `dump-log`: what is in log, index and snapshot files, as DumpLogSegments prints it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import Files
from minikafka.storage import dump, offset_index, time_index
from minikafka.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files",
        required=True,
        metavar="FILE,FILE,...",
        help=".log, .index, .timeindex, .snapshot",
    )
    parser.add_argument("--print-data-log", action="store_true", help="records with their contents")
    parser.add_argument("--deep-iteration", action="store_true", help="a line for each record")
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument(
        "--verify-index-only", action="store_true", help="of an index only what the log contradicts"
    )
    checks.add_argument(
        "--index-sanity-check", action="store_true", help="of an index only whether it is in order"
    )


def run(args: argparse.Namespace) -> int:
    """Exit status 1 when a file cannot be read, or a check of an index fails."""
    from minikafka.world.real.files import RealFiles

    files, in_order = RealFiles(), True
    for name in filter(None, args.files.split(",")):
        print(f"Dumping {name}")
        if not Path(name).is_file():
            raise ConfigError(f"no such file: {name}")
        index = name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        try:
            if index and args.index_sanity_check:
                in_order = sanity_check(files, name) and in_order
            elif index and args.verify_index_only:
                in_order = verify(files, name) and in_order
            else:
                contents = args.print_data_log
                for line in dump.lines(
                    files, name, records=args.deep_iteration or contents, contents=contents
                ):
                    print(line)
        except ValueError as error:  # a name that says nothing
            raise ConfigError(str(error)) from None
    return 0 if in_order else 1


def verify(files: Files, name: str) -> bool:
    """Print the entries that the log beside the index contradicts. Whether there are none."""
    wrong = [
        line for line in dump.lines(files, name, records=False, contents=False) if "MISM" in line
    ]
    for line in wrong:
        print(line)
    return not wrong


def sanity_check(files: Files, name: str) -> bool:
    """Whether the file consists of whole entries, in ascending order."""
    timed = name.endswith(TIME_INDEX_SUFFIX)
    entry = time_index.ENTRY if timed else offset_index.ENTRY
    rows = dump.time_index_entries(files, name) if timed else dump.offset_index_entries(files, name)
    keys = [row[:2] for row in rows]
    size = Path(name).stat().st_size
    problem = None
    if size % entry.size:
        problem = f"its size {size} is no multiple of {entry.size}"
    elif keys != sorted(keys):
        problem = "its entries are not in ascending order"
    if problem is None:
        print(f"{name} passed sanity check.")
    else:
        print(f"minikafka: {name} failed sanity check: {problem}", file=sys.stderr)
    return problem is None
