"""Stopping of a process in the foreground: by signals, or by the end of standard input."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LAST_WORD = 3


def call_when_asked_to_stop(stop: Callable[[str], None], with_stdin: bool) -> None:
    """Call ``stop(why)`` at the first SIGTERM or SIGINT, and again at the second one, which means
    that the user does not want to wait. The third one ends the process at once.

    With ``with_stdin``, the end of standard input also counts as a signal: it is a pipe from a
    supervisor. If the supervisor is killed it cannot send a signal, but the pipe is closed.
    """
    loop = asyncio.get_running_loop()
    asked = 0

    def on_signal(number: signal.Signals) -> None:
        nonlocal asked
        asked += 1
        if asked >= LAST_WORD:
            os.kill(os.getpid(), signal.SIGKILL)
        stop(number.name)

    def on_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop("standard input ended")

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    # A parent that waits for them by ``sigwait`` has blocked them, and a child inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if with_stdin:
        loop.add_reader(sys.stdin.fileno(), on_stdin)


def call_once_when_asked_to_stop(stop: Callable[[], None]) -> None:
    """Call the function at the first SIGINT or SIGTERM; the second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # not KeyboardInterrupt somewhere in a task
        stop()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
