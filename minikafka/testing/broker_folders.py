"""The processes of brokers in the data directory of `minikafka up`: signals, ends, new starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from minikafka.kernel.own_command import own_command

PROPERTIES = "server.properties"
ENDED = ("Z", "X")  # states of a process in Linux


class BrokerFolders:
    """Brokers with a folder ``broker-ID`` each in ``home``, which has their files ``pid``, ``log``
    and ``server.properties``. A broker may be a child of `minikafka up`, or one of ``restarted``.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.restarted: list[subprocess.Popen[bytes]] = []

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker's process with SIGKILL."""
        self.send(broker_id, signal.SIGKILL)

    def stop_broker(self, broker_id: int) -> None:
        """Begin the controlled shutdown of a broker with SIGTERM; return at once."""
        self.send(broker_id, signal.SIGTERM)

    def pause_broker(self, broker_id: int) -> None:
        """Stop a broker's time with SIGSTOP."""
        self.send(broker_id, signal.SIGSTOP)

    def resume_broker(self, broker_id: int) -> None:
        """End a pause with SIGCONT."""
        self.send(broker_id, signal.SIGCONT)

    def send(self, broker_id: int, number: int) -> None:
        """Send a signal to a broker's process; 0 only checks that it can be sent. Raises
        OSError."""
        os.kill(self._pid(broker_id), number)

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process has not ended; a paused one is alive."""
        try:
            pid = self._pid(broker_id)
        except FileNotFoundError:  # `minikafka up` removes it when its child has ended
            return False
        own = [process for process in self.restarted if process.pid == pid]
        return own[-1].poll() is None if own else runs_broker(pid)

    def restart_broker(self, broker_id: int) -> None:
        """Start a killed broker on its old data and port; return at once."""
        home = self.broker_home(broker_id)
        command = own_command("broker")
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--config", str(home / PROPERTIES)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (home / "pid").write_text(f"{process.pid}\n")
        self.restarted.append(process)

    def end_of_log(self, broker_id: int) -> str:
        """Return the last lines of what a broker has logged."""
        return end_of(self.broker_home(broker_id) / "log")

    def broker_home(self, broker_id: int) -> Path:
        return self.home / f"broker-{broker_id}"

    def _pid(self, broker_id: int) -> int:
        return int((self.broker_home(broker_id) / "pid").read_text())


def runs_broker(pid: int) -> bool:
    """Whether a process is a broker that has not ended. The file that names it may be older than
    this process, and a process that has ended may have a parent that does not look."""
    directory = Path(f"/proc/{pid}")
    try:
        threads = os.listdir(directory / "task")
        state = (directory / "stat").read_text().rpartition(") ")[2][:1]
        command = (directory / "cmdline").read_bytes()
    except OSError:
        if Path("/proc/self").exists():
            return False
    else:
        # One that is about to end has no command any more, but its sockets: until it is a zombie
        # whose other threads have ended, too.
        is_over = state in ENDED and len(threads) == 1
        return not is_over and (not command or PROPERTIES.encode() in command)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def end_of(path: Path) -> str:
    """Return the last lines of a file; "" if there is none."""
    return path.read_text(errors="replace")[-2000:] if path.exists() else ""
