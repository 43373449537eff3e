"""The verb `dump-log`: prints the contents of a log's files as Kafka's DumpLogSegments does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minikafka.kernel.config import ConfigError
from minikafka.server.storage.dump import (
    DumpOptions,
    LogDump,
    UnknownFile,
    decode_offsets_record,
    decode_share_state_record,
    decode_text,
    decode_transaction_record,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files",
        required=True,
        metavar="FILE,FILE,...",
        help=".log, .index, .timeindex, .txnindex, .snapshot, checkpoints",
    )
    parser.add_argument(
        "--print-data-log",
        action="store_true",
        help="print keys and values; implies --deep-iteration",
    )
    parser.add_argument(
        "--deep-iteration",
        action="store_true",
        help="print a line for each record, not only for each batch",
    )
    parser.add_argument(
        "--skip-record-metadata", action="store_true", help="print only keys and values of records"
    )
    parser.add_argument(
        "--max-bytes",
        type=int,
        metavar="BYTES",
        help="read only batches that start in these first bytes",
    )
    decoders = parser.add_mutually_exclusive_group()
    decoders.add_argument(
        "--offsets-decoder", action="store_true", help="decode records of __consumer_offsets"
    )
    decoders.add_argument(
        "--transaction-log-decoder",
        action="store_true",
        help="decode records of __transaction_state",
    )
    decoders.add_argument(
        "--share-group-state-decoder",
        action="store_true",
        help="decode records of __share_group_state",
    )
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument(
        "--verify-index-only",
        action="store_true",
        help="print only index entries that the log contradicts",
    )
    checks.add_argument(
        "--index-sanity-check", action="store_true", help="only check that an index is in order"
    )


def options_of(args: argparse.Namespace) -> DumpOptions:
    """Return the options of the dump.

    As in Kafka a decoder implies --print-data-log, which implies --deep-iteration.
    """
    decode = decode_text
    if args.offsets_decoder:
        decode = decode_offsets_record
    elif args.transaction_log_decoder:
        decode = decode_transaction_record
    elif args.share_group_state_decoder:
        decode = decode_share_state_record
    contents = args.print_data_log or decode is not decode_text
    return DumpOptions(
        deep=args.deep_iteration or contents,
        contents=contents,
        decode=decode,
        verify_only=args.verify_index_only,
        sanity_only=args.index_sanity_check,
        record_metadata=not args.skip_record_metadata,
        max_bytes=args.max_bytes,
    )


def run(args: argparse.Namespace) -> int:
    """Dump the files; return exit status 1 if one cannot be read or is corrupt."""
    from minikafka.world.real.files import RealFiles

    dump = LogDump(RealFiles(), options_of(args))
    for name in filter(None, args.files.split(",")):
        print(f"Dumping {name}")
        if not Path(name).is_file():
            raise ConfigError(f"no such file: {name}")
        try:
            for line in dump.lines(name):
                print(line)
        except UnknownFile:
            print(f"Ignoring unknown file {name}", file=sys.stderr)
    for headline, lines in dump.findings.items():
        print("\n".join([headline, *lines]), file=sys.stderr)
    return 1 if dump.findings else 0
