"""A PostgreSQL server with pgvector, from a package or from the system's own; skipped with a word without."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

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
    if home is None or os.getuid() == 0:
        pytest.skip("no PostgreSQL with pgvector: pip install pgserver, or the system's packages and no root")
    run = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([home / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust"], **run)
    options = f"-c listen_addresses='' -k {folder}"
    subprocess.run([home / "pg_ctl", "-D", folder / "data", "-w", "-o", options, "start"], **run)
    try:
        psql = [home / "psql", "-h", folder, "-U", "postgres", "-c", "create extension vector"]
        subprocess.run(psql, **run)
        yield f"postgresql://postgres:@/postgres?host={folder}"
    finally:
        subprocess.run([home / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"], **run)


def _on_path(program: str) -> list[Path]:
    found = shutil.which(program)
    return [] if found is None else [Path(found).resolve().parent]


def _has_pgvector(programs: Path) -> bool:
    config = programs / "pg_config"
    if not config.exists() or not (programs / "initdb").exists():
        return False
    shared = subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
    return (Path(shared) / "extension" / "vector.control").exists()
