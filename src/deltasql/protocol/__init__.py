"""The Delta protocol as pure values and functions: no I/O, no database, no object store."""

# Loaded with the package, because outside tools call `deltasql.protocol.jsonlog` and `.actions` by attribute.
from deltasql.protocol import actions, jsonlog

__all__ = ["actions", "jsonlog"]
