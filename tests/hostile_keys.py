"""Keys that are hard to store, and keys that must be refused."""

from __future__ import annotations

# As Delta Spark names them on disk: Hive-escaped, and not escaped again.
SPARK_KEYS = [
    "p=a b%2Fc%3Ad%25e%22f%27g%231%01/part-00000-23291a5b.c000.snappy.parquet",
    "p=__HIVE_DEFAULT_PARTITION__/part-00000.parquet",
    "t=2024-01-01 10%3A00%3A00/d=2024-01-01/part-00001.parquet",
    "_delta_log/00000000000000000000.json",
    "_delta_log/.00000000000000000000.json.crc",
    "_delta_log/_last_checkpoint",
]
# Names that a file system can hold and that programs like to mangle.
HOSTILE_KEYS = [
    "a b",
    " leading and trailing ",
    "a%2Fb",
    "%2e%2e/x",
    "%00",
    "100%",
    "a#b",
    "part.parquet#1",
    "#1",
    "'single' \"double\" `back`",
    "c:d",
    "C:\\x",
    "a?b&c=d+e@f",
    "*[x]{y}<z>|~^$!",
    "Größe/漢字/😀",
    "caf\u00e9",
    "cafe\u0301",
    "\ufeffbom",
    "next\u0085line",
    ".hidden/...",
    "-rf",
    "n" * 255,
    "d/" * 200 + "deep",
]
# Fine on disk; obstore cannot hold them.
CONTROL_KEYS = ["bell\x07", "soh\x01/x", "tab\tnewline\nreturn\r", "delete\x7f"]
# Never keys: they leave the folder, or name nothing.
ESCAPES = ["", "/", "/etc/passwd", "../x", "a/../../x", "..", ".", "./x", "a/./b", "a//b", "a/", "a\0b", "lone\ud800"]
