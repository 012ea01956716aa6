"""Text that means something to somebody, and other values that no one should hand in."""

from __future__ import annotations

from typing import Any

# Each means something to a database, a driver, a shell, a terminal, a URL or a template.
HOSTILE = {
    "quotes": "'' \" ` ´ ‘’ “” « »",
    "an end of text": "x'); DROP TABLE dl_tables; --",
    "comments": "-- /* */ # //",
    "semicolons": ";;;",
    "backslashes": "\\ \\\\ \\' \\x00 \\u0000 \\n",
    "placeholders of drivers": "%s %(name)s %% ? ?1 $1 :name @p",
    "dollar quotes": "$$ BEGIN $$ $a$ x $a$",
    "formats": "{} {0} {name!r} %n${jndi:x}",
    "control characters": "\x01\x1f\x7f\x80\x9f\t\r\n\x1b[2J",
    "emoji": "😀👩‍👩‍👧‍👦🏳️‍🌈",
    "right to left": "\u202eabc\u202c العربية עברית",
    "alike but not the same": "a\u0301 á \u212b Å ﬁ fi",
    "spaces of all kinds": " \u00a0\u2003\u2028\u2029\u3000\ufeff ",
    "NULL": "NULL",
    "a number": "1e999",
    "JSON": '{"a":[1,"\\u0000"]}',
    "wildcards": "%_*[a-z]",
    "a long one": "x" * 1_900,
}
LONE = "lone\ud800"
# A byte more than a key may have.
LONG = "é" * 1_000 + "x"
DEEP = '{"d":' * 1_000 + "1" + "}" * 1_000


def deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(1_000):
        value = {"d": value}
    return value
