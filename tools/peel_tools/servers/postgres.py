# SPDX-License-Identifier: MIT
"""A PostgreSQL server in a temporary folder, on a Unix socket in it: for tests and benchmarks, not for real data.

    with PostgresServer() as server:
        PostgresArchive(server.url)

`stop` ends it as an administrator would, `kill` as a power cut would. `start` restarts it with its data.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from peel_tools.boards.build_tools import MissingToolError
from peel_tools.servers import Server

__all__ = ["PostgresServer"]

_USER = "postgres"
_PORT = 5432
"""Part of the socket's name. The server does not listen on TCP."""
_SECONDS = "60"
_OPTIONS = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "wal_level": "replica",
}


class PostgresServer(Server):
    """One server process with a folder, which `close` removes. Raises MissingToolError if PostgreSQL is not installed.

    Parameters
    ----------
    primary : PostgresServer, optional
        A running server. This one starts as its copy, and follows it until it is promoted.
    **options : str
        Further settings of the server.
    """

    def __init__(self, *, primary: PostgresServer | None = None, **options: str) -> None:
        self._programs = _find_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="peel-pg-"))  # short: the path of a socket may have 107 bytes
        self._data = self.folder / "data"
        self._options = _OPTIONS | {"unix_socket_directories": f"'{self.folder}'"} | options
        if os.geteuid() == 0:
            shutil.chown(self.folder, _USER)
        if primary is None:
            self._run("initdb", "-D", self._data, "-A", "trust", "-U", _USER, "--no-sync")
        else:
            self._run("pg_basebackup", "-D", self._data, "-d", primary.url, "-R", "-c", "fast", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@/{_USER}?host={self.folder}&port={_PORT}"

    @property
    def pid(self) -> int:
        """The process id of the server, while it runs."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    def processes(self) -> list[int]:
        """Return the process ids of the running server and its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        options = " ".join(f"-c {name}={value}" for name, value in self._options.items())
        command = ("start", "-D", self._data, "-l", self.folder / "log", "-o", f"-p {_PORT} {options}")
        self._run("pg_ctl", "-w", "-t", _SECONDS, *command)

    def promote(self) -> None:
        """Promote a standby, so that it accepts writes."""
        self._run("pg_ctl", "-w", "-t", _SECONDS, "promote", "-D", self._data)

    def stop(self) -> None:
        """Stop it. Open transactions are rolled back, and their clients get an error."""
        self._run("pg_ctl", "-w", "-t", _SECONDS, "stop", "-D", self._data, "-m", "fast")

    def kill(self) -> None:
        """Kill it and its children, as a power cut would."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while not all(map(_dead, processes)):
            time.sleep(0.01)
        # In a container the dead process may stay a zombie, and its lock files would look like those of a running server.
        for lock in (self._data / "postmaster.pid", self.folder / f".s.PGSQL.{_PORT}.lock"):
            lock.unlink()

    def close(self) -> None:
        """Stop it and remove its folder."""
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "-w", "-t", _SECONDS, "stop", "-D", self._data, "-m", "immediate", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path, check: bool = True) -> None:
        """Run a program as the PostgreSQL user, because the server refuses to run as root."""
        as_user = {"user": _USER, "group": pwd.getpwnam(_USER).pw_gid} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [self._programs / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            check=False,
            **as_user,  # type: ignore[call-overload]
        )
        if check and done.returncode:
            log = self.folder / "log"
            end = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} failed with {done.returncode}: {end}")


def _dead(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _find_programs() -> Path:
    """Return the folder of PostgreSQL's programs: on PATH, or Debian's newest."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise MissingToolError("not installed: initdb. On Debian: apt-get install postgresql")
    return versions[-1].parent
