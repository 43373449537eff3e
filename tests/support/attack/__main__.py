"""Attack a cluster for some minutes with a victim beside it.

usage: python -m tests.support.attack MINUTES [--brokers HOST:PORT,...] [--seed N] [--replay N ...]

Without --brokers it starts three brokers and a ZooKeeper, and judges them too: none died or was
started again, no error events, memory within a bound. The last line before a failure names the
seeds that were on their way; --replay sends single seeds again (with MINUTES 0).
What the attacker leaves alone, and why, is told in the package's docstring.
"""

from __future__ import annotations

import argparse
import time

from tests.support.attack.run import replay, strike, strike_own_cluster

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.support.attack")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--brokers", help="attack these instead of an own cluster")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="the first one")
    parser.add_argument("--replay", type=int, nargs="*", default=(), help="only these seeds")
    args = parser.parse_args()
    if args.replay:
        if not args.brokers:
            parser.error("--replay needs --brokers")
        replay(args.brokers, args.replay)
    elif args.brokers:
        strike(args.brokers, args.minutes * 60, args.seed)
    else:
        strike_own_cluster(args.minutes * 60, args.seed)
