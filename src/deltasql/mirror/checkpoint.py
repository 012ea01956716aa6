"""A checkpoint's content, straight from the ledger: nothing is replayed."""

from __future__ import annotations

from deltasql.ledger.contracts import TableEntry, TxnLogReader
from deltasql.log.target import CheckpointState, CheckpointWritten, MirrorTarget
from deltasql.protocol.properties import deleted_file_retention, transaction_retention


def write_checkpoint(
    reader: TxnLogReader, table: TableEntry, target: MirrorTarget, version: int, now: int
) -> CheckpointWritten:
    """Write a checkpoint of a published version. `now` (milliseconds) decides which tombstones are old enough to go."""
    return target.write_checkpoint(checkpoint_state(reader, table, version, now))


def checkpoint_state(reader: TxnLogReader, table: TableEntry, version: int, now: int) -> CheckpointState:
    state = reader.state(table, version)
    configuration = state.metadata.configuration
    cutoff = now - deleted_file_retention(configuration)
    retention = transaction_retention(configuration)
    transactions = [
        txn
        for txn in reader.transactions(table, version)
        if retention is None or (txn.last_updated is not None and txn.last_updated > now - retention)
    ]
    num_files, num_tombstones = reader.count(table, version, newer_than=cutoff)
    return CheckpointState(
        version=version,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=transactions,
        domains=reader.domains(table, version),
        files=reader.files(table, version),
        tombstones=reader.tombstones(table, version, newer_than=cutoff),
        num_files=num_files,
        num_tombstones=num_tombstones,
    )
