"""Extreme values of every native type: long texts, NaN, zeros of both signs, unicode beyond the first plane, decimals
of every width.

Most values of a month lie in a narrow range of its own, so that files and row groups can be skipped; now and then an
awkward one is among them. Rows come from a seed.
"""

from __future__ import annotations

from random import Random

PREFIX = "commonprefixoftwenty"
TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "m",
        "~",
        "100%",
        "a_b",
        "back\\slash",
        "it's",
        "NULL",
        "line\nbreak\ttab",
        "é",
        "e\u0301",
        "ß",
        "ÿ" * 30,
    ),
    *(PREFIX, PREFIX + "a", PREFIX + "z", PREFIX + "\U0010ffff", PREFIX + "\x7f"),
    *(
        "\uffff",
        "\ud7ff",
        "\ue000",
        "𝄞",
        "🧑‍🚀" * 4,
        "\U0010ffff",
        "\U0010ffff" * 17,
        "a" + "\U0010ffff" * 20,
        "𐀀" * 16 + "b",
    ),
    *("x" * 6000, "m" * 6000 + "1", "\U0010ffff" * 1500, "é" * 3000),
)
FLOATS = (
    "NaN",
    "0",
    "-0",
    "Infinity",
    "-Infinity",
    "5e-324",
    "-5e-324",
    "1.7976931348623157e308",
    "-1.5",
    "0.1",
    "1e-30",
)
REALS = ("NaN", "0", "-0", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "-1.5", "0.1", "16777217")
SMALL_DECIMALS = ("0", "0.01", "-0.01", "9999999.99", "-9999999.99")
MIDDLE_DECIMALS = ("0", "0.0001", "-0.0001", "99999999999999.9999", "-99999999999999.9999", "-1", "90071992547409.93")
LARGE_DECIMALS = (
    "0",
    "0.0000000001",
    "-0.0000000001",
    "9999999999999999999999999999.9999999999",
    "-9999999999999999999999999999.9999999999",
    "18446744073709551616.5",
    "-170141183460469231731687303.5",
)
DATES = ("0044-03-15 BC", "0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "9999-12-31")
MOMENTS = (
    *(
        "0044-03-15 12:00:00 BC",
        "0001-01-01 00:00:00",
        "1582-10-04 23:59:59.999999",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00",
    ),
    *("9999-12-31 23:59:59.999999", "2026-03-29 01:30:00.000001"),
)
BYTES = ("", "\\x00", "\\xff", "\\x" + "ff" * 17, "\\x" + "00" * 20, "\\x" + "7f80" * 10, "\\x" + "ab" * 6000)
UUIDS = (
    "00000000-0000-0000-0000-000000000000",
    "7fffffff-ffff-ffff-ffff-ffffffffffff",
    "80000000-0000-0000-0000-000000000000",
    "f" * 32,
)

WILD = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    flag boolean,
    small smallint,
    n integer,
    big bigint,
    f real,
    d double precision,
    d9 numeric(9, 2),
    d18 numeric(18, 4),
    d38 numeric(38, 10),
    word text,
    plain text collate "C",
    code varchar(6100),
    day date,
    at timestamp,
    seen timestamptz,
    u uuid,
    raw bytea,
    loose numeric,
    doc jsonb,
    tags text[],
    primary key (id, ts)
)"""
COLUMNS = tuple(line.split()[0] for line in WILD.split("\n")[4:-2])
"""Those after the key."""


def wild_row(random: Random, month: int) -> list[str | None]:
    """One value for each column after the key, in Postgres' text form."""
    near = 1000 * month + random.randrange(100)

    def one(awkward: tuple[str, ...], ordinary: str, share: float = 0.15) -> str | None:
        chance = random.random()
        return None if chance < 0.1 else random.choice(awkward) if chance < 0.1 + share else ordinary

    return [
        one(("true", "false"), "true" if month % 2 else "false", 0.05),
        one(("-32768", "32767", "0"), str(near)),
        one(("-2147483648", "2147483647", "0"), str(near)),
        one(("-9223372036854775808", "9223372036854775807", "0"), str(near * 2**33)),
        one(REALS, str(near)),
        one(FLOATS, str(near / 8)),
        one(SMALL_DECIMALS, str(near)),
        one(MIDDLE_DECIMALS, f"{near}.5"),
        one(LARGE_DECIMALS, f"{near}000000000000000000.25"),
        one(TEXTS, f"word {near}"),
        one(TEXTS, f"{PREFIX}{near}"),
        one(TEXTS, "m"),
        one(DATES, f"20{10 + month}-03-{1 + near % 28:02}"),
        one(MOMENTS, f"20{10 + month}-03-{1 + near % 28:02} 12:00:00"),
        one(tuple(map(_in_utc, MOMENTS)), f"20{month}0-01-01 00:00+00"),
        one(UUIDS, f"{near:08x}-0000-4000-8000-000000000000"),
        one(BYTES, f"\\x{near:08x}"),
        one(("NaN", "Infinity", "-Infinity", "1.10", "1.1000", "1e-100", "0.00"), str(near)),
        one(('{"a": "𝄞"}', "null", '"x"'), f'{{"n": {near}}}'),
        one(("{}", "{NULL}", '{"",""}', "{\U0010ffff}"), f"{{t{near}}}"),
    ]


def _in_utc(moment: str) -> str:
    plain = moment.removesuffix(" BC")
    return f"{plain}+00{moment.removeprefix(plain)}"


def literal(value: str | None) -> str:
    """The value as an untyped constant."""
    if value is None:
        return "null"
    doubled = value.replace("'", "''").replace("\\", "\\\\")
    return f"E'{doubled}'"


def wild_rows(months: int = 4, rows_per_month: int = 60, seed: int = 7, first_id: int = 1) -> str:
    """An INSERT of rows in the first months of 2026, a few hours apart."""
    random = Random(seed)
    rows: list[str] = []
    for month in range(1, months + 1):
        for row in range(rows_per_month):
            ts = f"2026-{month:02}-{1 + row * 27 // rows_per_month:02} {row % 24:02}:00:00+00"
            values = ", ".join(map(literal, [str(first_id + len(rows)), ts, *wild_row(random, month)]))
            rows.append(f"({values})")
    return "insert into events values " + ",\n".join(rows)


def wild_changes(seed: int, ids: range) -> list[str]:
    """Statements for both sides: half of the rows get other values, some go, some come; each meets rows in every
    tier."""
    random = Random(seed)
    statements = []
    for key in ids:
        chance = random.random()
        if chance < 0.15:
            statements.append(f"delete from events where id = {key}")
        elif chance < 0.75:
            month = random.randint(1, 4)
            some = random.sample(list(zip(COLUMNS, wild_row(random, month), strict=True)), 9)
            statements.append(
                f"update events set {', '.join(f'{name} = {literal(value)}' for name, value in some)} where id = {key}"
            )
        elif chance < 0.9:
            values = ", ".join(
                map(literal, [str(10_000 + key), f"2026-0{random.randint(1, 4)}-17 03:00+00", *wild_row(random, 2)])
            )
            statements.append(f"insert into events values ({values})")
    return statements
