"""Foreign readers of mirrored tables, the tables they are given, and what it means that they agree with the ledger."""
