"""Every commit comes out of the ledger with the same bytes, whatever process, time zone or locale makes it again.

The locales a machine has differ. Plain C is everywhere; it is tried without Python's escape to UTF-8, so that text
defaults to ASCII. Of Turkish (where i and I are no pair) and German (a comma in numbers) the first one found is
taken, and C.UTF-8 where there is neither.
"""

from __future__ import annotations

import json
import locale
import os
import subprocess
import sys
from pathlib import Path

import deltalake
import pytest

import deltasql
from deltasql.protocol.actions import AddFile, DomainMetadata, SetTransaction
from deltasql.protocol.jsonlog import sha256
from readers.again import write_again
from readers.agreement import local
from readers.tables import CASES, plain

pytestmark = pytest.mark.e2e


def a_foreign_locale() -> str:
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("tr_TR.UTF-8", "de_DE.UTF-8"):
            try:
                return locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue
        return "C.UTF-8"
    finally:
        locale.setlocale(locale.LC_ALL, before)


# Zones are spelled out, so that they work where no database of zones is installed; with their offset in seconds.
UTC, KOLKATA, ST_JOHNS = ("UTC0", 0), ("IST-5:30", 19_800), ("NST3:30NDT,M3.2.0,M11.1.0", -12_600)
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, list[str]]]:
    """A ledger of every case, of rare actions and of a foreign table, and the hashes of the files in their logs."""
    folder = tmp_path_factory.mktemp("same_bytes")
    url = f"sqlite:///{folder}/ledger.db"
    with deltasql.connect(url, root=str(folder / "lake")) as lake:
        for name, case in CASES.items():
            if name != "early_commits_gone":  # which takes commits out of the log
                case.build(lake)
        rare = lake.create_table("rare", plain(0, 0).schema, properties={"z": "\x1f é", "a": "1"})
        tags = {key: key.upper() for key in ("zeta", "alpha", "ı", "i", "ß")}
        add = AddFile(path="a.parquet", size=1, modification_time=1, data_change=True, tags=tags)
        domain = DomainMetadata(domain="d", configuration='{"b":1,"a":2}', removed=False)
        rare.commit([add, SetTransaction(app_id="é", version=3), domain])
        # delta-rs spells its commits otherwise, and their bytes are kept as they were found.
        deltalake.write_deltalake(folder / "foreign", plain(0, 4))
        deltalake.write_deltalake(folder / "foreign", plain(4, 4), mode="append")
        lake.adopt(str(folder / "foreign"), "foreign")
        assert lake.mirror().ok
        logs = {table.name: sorted((local(table.location) / "_delta_log").glob("*.json")) for table in lake.tables()}
    return url, {name: [sha256(file.read_bytes()) for file in files] for name, files in logs.items()}


@pytest.mark.parametrize(
    ("seed", "zone", "text"),
    [
        pytest.param("0", UTC, ASCII, id="seed 0, UTC, ASCII"),
        pytest.param("1", KOLKATA, {"LC_ALL": "C.UTF-8"}, id="seed 1, Kolkata, UTF-8"),
        pytest.param("random", ST_JOHNS, ASCII, id="random seed, St John's, ASCII"),
        pytest.param("random", KOLKATA, {"LC_ALL": a_foreign_locale()}, id="random seed, Kolkata, another language"),
    ],
)
def test_the_same_bytes_in_any_environment(
    seed: str,
    zone: tuple[str, int],
    text: dict[str, str],
    ledger: tuple[str, dict[str, list[str]]],
    tmp_path: Path,
) -> None:
    url, hashes = ledger
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    result = subprocess.run(
        [sys.executable, "-m", "readers.again", url, str(theirs)],
        env={**keep, **paths, **text, "TZ": zone[0], "PYTHONHASHSEED": seed},
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr.decode()
    found = json.loads(result.stdout)
    # The environment was what it was meant to be.
    assert found["offset"] == zone[1]
    assert (found["encoding"].upper() == "UTF-8") == (text is not ASCII)
    # Recorded, made again, and in the log: one hash, version by version.
    assert found["hashes"] == {name: [[digest, digest] for digest in versions] for name, versions in hashes.items()}
    assert sum(len(versions) for versions in hashes.values()) == 78
    # And the same rows give the same statistics, partition values and directories.
    assert found["files"] == write_again(str(ours))
