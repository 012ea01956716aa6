"""The ledger: the SQL database that is the truth. No object store is touched from here."""
