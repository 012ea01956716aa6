"""Does in a fresh process what a ledger did before: `python -m readers.again LEDGER FOLDER` prints what comes out."""

from __future__ import annotations

import json
import locale
import sys
import time
from typing import Any

import deltasql
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.protocol.jsonlog import sha256
from readers.tables import CASES


def encode_again(url: str) -> dict[str, list[tuple[str, str]]]:
    """Of every commit in a ledger: the hash recorded when it was committed, and the hash of its bytes made again."""
    database = open_ledger(url)
    try:
        reader = SqlTxnLogReader(database)
        return {
            table.name: [
                (commit.sha256, sha256(commit.encode() or b""))
                for commit in reader.commits(table, 0, reader.head(table).version)
            ]
            for table in reader.tables()
        }
    finally:
        database.close()


def write_again(folder: str) -> list[list[Any]]:
    """What the commits say of files with the same rows: directory, partition values, statistics."""
    found: list[list[Any]] = []
    with deltasql.connect(f"sqlite:///{folder}/again.db", root=folder) as lake:
        for name in ("all_primitives", "partitioned_by_every_type", "partitioned_by_strings"):
            CASES[name].build(lake)
            adds = lake.table(name).snapshot().adds()
            found += [[add.path.rpartition("/")[0], dict(add.partition_values), add.stats] for add in adds]
    return sorted(found, key=json.dumps)


def main() -> None:
    # Python itself only takes the encoding from the locale; this takes the rest of it.
    locale.setlocale(locale.LC_ALL, "")
    ledger, folder = sys.argv[1:]
    answer = {
        "offset": -time.timezone,
        "encoding": locale.getencoding(),
        "hashes": encode_again(ledger),
        "files": write_again(folder),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
