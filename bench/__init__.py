"""Side-by-side measurements. A figure is a ratio against a peer in the same run: seconds alone say little."""
