"""The release, as it appears in commits and on the command line."""

__version__ = "0.1.0"

ENGINE_INFO = f"deltasql/{__version__}"
