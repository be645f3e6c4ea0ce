"""Odd values of every type, as text that Postgres reads, and the odd ways to write them."""

from __future__ import annotations

import random
from collections.abc import Mapping

LONG = "6 KB of text: " + "thermocline äöü 日本 " * 300

VALUES: Mapping[str, tuple[str, ...]] = {
    "bool": ("true", "false", "t", "no", "1", "off"),
    "int2": ("0", "1", "-1", "7", "32767", "-32768", "100"),
    "int4": ("0", "1", "-1", "2", "5", "37", "100", "2147483647", "-2147483648", "65536"),
    "int8": ("0", "1", "-7", "12", "2147483648", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
    "float4": ("0", "-0", "1.5", "0.1", "1e-5", "1e6", "1234567", "NaN", "Infinity", "-Infinity", "1e-45", "3.4e38"),
    "float8": (
        *("0", "-0", "0.1", "1", "1e15", "1e14", "123456789012345.6", "1e-5", "1e-4", "0.30000000000000004"),
        *("NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "1e23", "9007199254740993"),
    ),
    "numeric": (
        *("0", "0.0", "1", "1.50", "-0.005", "79.19", "100.000", "1e-3", "1e2", "-9999.99", "NaN", "Infinity"),
        *("9999999999999999999999999999", "0.0000000000000000000000001", "12345678901234567890.1234567890", "1e400"),
    ),
    "text": (
        *("", "a", "buy", "Ä", "it's", "{}", "%", "a_c", "\\", "日本", "é", "é", "🙂", "1", "2026-01-01", " x "),
        *("NULL", "b%", "^b.*y$", "$1", "?", "/* x */", "-- x", "YYYY-MM-DD HH24:MI:SS", "day", "UTC", LONG),
    ),
    "varchar": ("", "a", "note 7", "buy", "Ä ö", "x" * 41),
    "bpchar": ("", "a", "ab      ", "buy", "Ä"),
    "name": ("", "id", "pg_catalog", "x" * 70),
    "char": ("a", "", "1"),
    "date": (
        *("2026-02-03", "2026-01-31", "1969-12-31", "2024-02-29", "0044-03-15 BC", "0001-01-01", "9999-12-31"),
        *("infinity", "-infinity", "5874897-12-31", "4714-11-24 BC", "2000-01-01"),
    ),
    "time": ("00:00:00", "12:00:00.5", "23:59:59.999999", "24:00:00", "00:05"),
    "timetz": ("00:00:00+00", "24:00:00-08", "12:00:00.000001+05:30"),
    "timestamp": (
        *("2026-01-29 10:00:00", "1969-12-31 23:59:59.999999", "2026-03-29 02:30", "0044-03-15 12:00 BC", "infinity"),
        *("-infinity", "294276-12-31 23:59:59", "4714-11-24 00:00:00 BC", "2026-02-28 24:00:00"),
    ),
    "timestamptz": (
        *("2026-03-29 01:30:00+00", "2026-02-01", "2026-04-01 00:00+02", "1900-01-01 00:00+00", "infinity"),
        *("-infinity", "0044-03-15 12:00+00 BC", "294276-12-31 23:59:59+00", "2026-10-25 00:59:59.5+00"),
    ),
    "interval": (
        *(
            "0",
            "1 day",
            "24 hours",
            "1 month -1 day",
            "-1 year 2 mons 3 days 04:05:06.789",
            "100000 hours",
            "P1Y2M3DT4H",
        ),
        *("-00:00:01.5", "1.5 days", "178000000 years"),
    ),
    "uuid": (
        "c4ca4238-a0b9-2382-0dcc-509a6f75849b",
        "00000000-0000-0000-0000-000000000000",
        "{FFFFFFFF" + "F" * 24 + "}",
    ),
    "bytea": ("", "\\x00", "\\xdeadbeef", "abc", "\\x5c27", "\\000\\377"),
    "bit": ("1", "0"),
    "varbit": ("", "101", "1" * 70),
    "json": ("{}", "null", '{"a": 1, "a": 2}', "[1.0, 1e2]", '"\\u00e4"'),
    "jsonb": ("{}", "null", '{"a": 1, "a": 2, "b": [null]}', "[1.0, 1e2]", '"ä"', "1.50"),
    "inet": ("10.0.0.1", "10.0.0.0/8", "::1", "::ffff:1.2.3.4/96"),
    "cidr": ("10.0.0.0/8", "::/0"),
    "macaddr": ("08:00:2b:01:02:03",),
    "point": ("(0,0)", "(1.5,-2)", "(1e-5,1e15)"),
    "box": ("(1,1),(0,0)",),
    "circle": ("<(0,0),1.5>",),
    "lseg": ("[(0,0),(1,2)]",),
    "oid": ("0", "1", "4294967295"),
    "xid8": ("1",),
    "pg_lsn": ("0/0", "16/B374D848"),
    "int4range": ("empty", "[1,5)", "(,3]"),
    "numrange": ("[1.0,1.50]", "(,)"),
    "tstzrange": ("[2026-01-01 00:00+00,2026-02-01 00:00+00)", "empty"),
    "daterange": ("[2026-01-01,2026-01-05]",),
    "tsvector": ("a b 'c d'",),
    "tsquery": ("a & !b",),
    "_int4": ("{}", "{1,2,NULL}", "{{1,2},{3,4}}", "[0:1]={5,6}"),
    "_int8": ("{}", "{9223372036854775807}"),
    "_text": ("{}", '{a,"b c",NULL,"NULL"}', '{"","\\"\\\\"}'),
    "_numeric": ("{}", "{1.0,1.00,NaN}"),
    "_float8": ("{1e15,-0,NaN}",),
    "_timestamptz": ("{}", '{"2026-01-01 00:00:00+00"}'),
    "_uuid": ("{}",),
    "_bool": ("{t,f,NULL}",),
}
NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "float8", "float4"})
BARE_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "int4": ("0", "1", "7", "100", "0x1F", "1_000", "0b101", "0o17", "2147483647", "00012"),
    "int8": ("2147483648", "9223372036854775807", "0x7FFFFFFFFF", "1_000_000_000_000"),
    "numeric": ("1.50", ".1", "1.", "1e0", "1e2", "1e-3", "9223372036854775808", "1_0.0_1", "0.00", "1e400"),
}


def quoted(chance: random.Random, value: str) -> str:
    """A string constant, in one of the ways that Postgres reads."""
    plain = "'" + value.replace("'", "''") + "'"
    if len(value) > 100:
        return plain
    roll = chance.random()
    if roll < 0.75:
        return plain
    if roll < 0.82:
        return "E'" + "".join(_escaped(chance, letter) for letter in value) + "'"
    if roll < 0.88:
        letters = (
            f"\\+{ord(letter):06X}" if chance.random() < 0.3 else letter for letter in value.replace("\\", "\\\\")
        )
        return "U&'" + "".join("''" if letter == "'" else letter for letter in letters) + "'"
    if roll < 0.94:
        return f"$q${value}$q$"
    return f"$${value}$$" if "$" not in value else plain


def _escaped(chance: random.Random, letter: str) -> str:
    if letter in "\\'":
        return "\\" + letter
    if chance.random() < 0.3:
        return f"\\x{ord(letter):02x}" if ord(letter) < 128 else f"\\U{ord(letter):08x}"
    return letter
