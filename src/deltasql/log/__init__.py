"""A table's `_delta_log` on an object store: what is in it, how it is read and how it is written."""
