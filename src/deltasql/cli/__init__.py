"""The command `deltasql`. The only layer that knows the terminal."""
