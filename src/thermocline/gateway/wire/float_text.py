"""Floats as Postgres prints them: the shortest decimal that lies strictly between the neighbours' midpoints, with
Postgres' exponents.

Arrow's own text is the same for most values; the others are printed one by one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LEAST_PLAIN = 1e-4
_PLAIN_BELOW = {8: 1e10, 4: 1e6}
"""From the least up to here Arrow prints digits as Postgres does, and no decimal of 17 (9) digits is a midpoint of two
floats."""
_LARGEST_FIXED_EXPONENT = {8: 15, 4: 6}
_DIGITS = {8: 17, 4: 9}


def floats_to_text(column: pa.Array) -> pa.Array:
    """A column of floats as text, nulls kept."""
    width = column.type.bit_width // 8
    text = column.cast(pa.large_string())
    size = pc.abs(column)
    zero, low, high = (pa.scalar(value, column.type) for value in (0.0, _LEAST_PLAIN, _PLAIN_BELOW[width]))
    plain = pc.or_(pc.equal(size, zero), pc.and_(pc.greater_equal(size, low), pc.less(size, high)))
    if pc.all(plain).as_py() is not False:
        return text
    odd = pc.fill_null(pc.invert(plain), False)
    printed = [render_float(value, width) for value in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(printed, pa.large_string()))


def render_float(value: float, width: int) -> str:
    """One float of 8 or 4 bytes."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    digits, exponent = _shortest(abs(value), width)
    sign = "-" if value < 0 else ""
    if exponent < -4 or exponent >= _LARGEST_FIXED_EXPONENT[width]:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _shortest(value: float, width: int) -> tuple[str, int]:
    """The digits without trailing zeros, and the power of ten of the first."""
    number = np.float64(value) if width == 8 else np.float32(value)
    low, high = _midpoints(number)
    for precision in range(_DIGITS[width]):
        text = (
            np.format_float_scientific(number, precision=precision, unique=False, trim="k")
            if precision
            else f"{value:.0e}"
        )
        if low < Fraction(text) < high:
            mantissa, _, exponent = text.partition("e")
            return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
    raise ValueError(f"no decimal for {value!r}")


def _midpoints(number: np.floating) -> tuple[Fraction, Fraction]:
    """The ends of the interval of decimals that are read as this number, without the ends themselves."""
    infinity = type(number)(np.inf)
    with np.errstate(over="ignore"):
        below, above = np.nextafter(number, -infinity), np.nextafter(number, infinity)
    exact = Fraction(float(number))
    high = (exact + Fraction(float(above))) / 2 if np.isfinite(above) else exact + (exact - Fraction(float(below))) / 2
    return (exact + Fraction(float(below))) / 2, high
