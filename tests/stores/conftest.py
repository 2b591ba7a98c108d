"""A PostgreSQL server with pgvector, from a package or from the system's own; skipped with a word without."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server for this session, as ``postgresql://...``."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        try:
            import pgserver
        except ImportError:
            yield from _of_the_system(Path(folder))
            return
        server = pgserver.get_server(folder, cleanup_mode="delete")
        try:
            server.psql("create extension if not exists vector;")
            yield server.get_uri()
        finally:
            server.cleanup()


def _of_the_system(folder: Path) -> Iterator[str]:
    """One from the distribution's packages (Debian: postgresql, postgresql-NN-pgvector)."""
    programs = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *_on_path("pg_ctl")]
    home = next((p for p in programs if _has_pgvector(p)), None)
    if home is None:
        pytest.skip("no PostgreSQL with pgvector: pip install pgserver, or the system's packages")
    # PostgreSQL refuses to run as root; its packages make a user of this name.
    options: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL}
    if os.getuid() == 0:
        options["user"] = "postgres"
        shutil.chown(folder, "postgres")
    data = folder / "data"

    def run(program: str, *arguments: object) -> None:
        subprocess.run([home / program, *map(str, arguments)], **options)

    run("initdb", "-D", data, "-U", "postgres", "-A", "trust")
    run(
        "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", f"-c listen_addresses='' -k {folder}", "start"
    )
    try:
        run("psql", "-h", folder, "-U", "postgres", "-c", "create extension vector")
        yield f"postgresql://postgres:@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def _on_path(program: str) -> list[Path]:
    found = shutil.which(program)
    return [] if found is None else [Path(found).resolve().parent]


def _has_pgvector(programs: Path) -> bool:
    config = programs / "pg_config"
    if not config.exists() or not (programs / "initdb").exists():
        return False
    shared = subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
    return (Path(shared) / "extension" / "vector.control").exists()
