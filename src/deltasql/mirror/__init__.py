"""The mirror: the one layer that knows both the ledger and the log."""
