"""A real Key Distribution Center of Kerberos on loopback, in a directory, without privileges."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until

REALM = "EXAMPLE.COM"
LIMIT_S = 30
_PROGRAMS = ("kdb5_util", "kadmin.local", "krb5kdc")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where Debian has them


def why_there_is_no_kdc() -> str | None:
    """Return what is missing for tests with a KDC; None if they can run."""
    if importlib.util.find_spec("gssapi") is None:
        return "the extra gssapi is not installed"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"no {missing[0]}: apt-get install krb5-kdc krb5-admin-server"
    return None


class Kdc:
    """``with Kdc(directory, ["alice", "kafka/localhost"]) as kdc``; each principal has a keytab.

    ``lives`` limits the tickets of a principal, in seconds. Processes that shall use the KDC need
    ``environment``, and Java ``java_option``."""

    def __init__(
        self,
        directory: Path,
        principals: list[str],
        lives: Mapping[str, int] = {},
    ) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        self.log = directory / "kdc.log"
        self._principals = principals
        self._lives = lives
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
            "KRB5CCNAME": f"FILE:{self.directory / 'ccache'}",
        }

    @property
    def java_option(self) -> str:
        return f"-Djava.security.krb5.conf={self.config}"

    def keytab(self, principal: str) -> Path:
        return self.directory / f"{principal.replace('/', '-')}.keytab"

    def module(self, principal: str) -> str:
        """Return the JAAS entry of a principal with its keytab."""
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keytab(principal)}" principal="{principal}@{REALM}";'
        )

    def tickets_of(self, principal: str) -> int:
        """Return how many initial tickets the KDC has issued to a principal."""
        lines = self.log.read_text().splitlines()
        wanted = (" AS_REQ ", "ISSUE: ", f", {principal}@{REALM} for ")
        return sum(all(part in line for part in wanted) for line in lines)

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-database")
        commands = []
        for principal in self._principals:
            life = f"-maxlife {self._lives[principal]}sec " if principal in self._lives else ""
            commands.append(f"addprinc -randkey {life}{principal}")
            commands.append(f"ktadd -k {self.keytab(principal)} {principal}")
        self._run("kadmin.local", "-r", REALM, text="\n".join(commands) + "\n")
        for principal in self._principals:
            assert self.keytab(principal).exists(), f"no keytab of {principal}"
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None and self.log.exists():
            error.add_note(self.log.read_text()[-3000:])
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        """Start the KDC, and wait until it listens."""
        with (self.directory / "kdc.output").open("wb") as output:
            self._process = process = subprocess.Popen(
                [self._program("krb5kdc"), "-n"],
                env={**os.environ, **self.environment},
                stdout=output,
                stderr=output,
            )

        def listens() -> bool:
            assert process.poll() is None, (self.directory / "kdc.output").read_text()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port)).close()
                return True
            return False

        until(listens, "the KDC listens", LIMIT_S)

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        done = subprocess.run(
            [self._program(program), *arguments],
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done

    @staticmethod
    def _program(name: str) -> str:
        found = shutil.which(name, path=_PATH)
        assert found is not None
        return found

    def _write_configuration(self) -> None:
        # The names of hosts are taken as they are: loopback has other ones on each machine.
        self.config.write_text(
            f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{self._port}
 }}
"""
        )
        (self.directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
 kdc_listen = 127.0.0.1:{self._port}
 kdc_tcp_listen = 127.0.0.1:{self._port}
[realms]
 {REALM} = {{
  database_name = {self.directory}/principal
  key_stash_file = {self.directory}/stash
 }}
[logging]
 kdc = FILE:{self.log}
"""
        )
