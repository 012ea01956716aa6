# pyarrow ships no types. Everything of it is Any: honest, and enough for the rest to stay strict.
from typing import Any

def __getattr__(name: str) -> Any: ...
