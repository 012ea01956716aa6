"""Object stores: local files, obstore's stores, and memory, behind one protocol."""
