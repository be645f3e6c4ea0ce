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
"""From the least up to here Arrow's text has no exponent, as Postgres' has none."""
_MIDPOINTS = {8: (2.0**51, 1e45), 4: (2.0**21, 1e22)}
"""Only between these can a decimal of 17 (9) digits lie in the middle of two floats: below, such a middle has more
digits after the point, and above, more before it than powers of five can make zeros of."""
_LARGEST_FIXED_EXPONENT = {8: 15, 4: 6}


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
    pairs = zip(column.filter(odd).to_pylist(), text.filter(odd).to_pylist(), strict=True)
    printed = [_render(value, shortest, width) for value, shortest in pairs]
    return pc.replace_with_mask(text, odd, pa.array(printed, pa.large_string()))


def _render(value: float, shortest: str, width: int) -> str:
    """One float of 8 or 4 bytes, from the shortest decimal that reads back as the same float."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    digits, exponent = _digits(shortest.removeprefix("-"))
    least, most = _MIDPOINTS[width]
    if least <= abs(value) <= most:
        digits, exponent = _strictly_inside(abs(value), width, digits, exponent)
    sign = "-" if value < 0 else ""
    if exponent < -4 or exponent >= _LARGEST_FIXED_EXPONENT[width]:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _digits(text: str) -> tuple[str, int]:
    """The digits of a decimal without zeros around them, and the power of ten of the first."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    return digits.rstrip("0"), len(digits) - 1 - len(fraction) + int(power or 0)


def _strictly_inside(value: float, width: int, digits: str, exponent: int) -> tuple[str, int]:
    """The digits, or others where they are the middle of two floats: Postgres prints more digits then."""
    below, above = _neighbours(value, width)
    # Floats of this size are multiples of a quarter, so that eight times a middle is a whole number.
    low, high = (int(4 * value) + int(4 * other) for other in (below, above))
    power = exponent - len(digits) + 1
    decimal, unit = 8 * int(digits) * 10 ** max(power, 0), 10 ** max(-power, 0)
    if low * unit < decimal < high * unit:
        return digits, exponent
    return _search(Fraction(value), Fraction(low, 8), Fraction(high, 8))


def _neighbours(value: float, width: int) -> tuple[float, float]:
    if width == 8:
        return math.nextafter(value, 0.0), math.nextafter(value, math.inf)
    number = np.float32(value)
    return float(np.nextafter(number, np.float32(0))), float(np.nextafter(number, np.float32(np.inf)))


def _search(exact: Fraction, low: Fraction, high: Fraction) -> tuple[str, int]:
    """The decimal with the fewest digits between the ends, the closest of these, and the even one of two as close."""
    top = math.floor(math.log10(exact.numerator) - math.log10(exact.denominator)) + 1
    for power in range(top, top - 20, -1):
        unit = Fraction(10) ** power
        below = exact // unit
        inside = [whole for whole in (below, below + 1) if low < whole * unit < high]
        if inside:
            best = min(inside, key=lambda whole: (abs(whole * unit - exact), whole % 2))
            return str(best).rstrip("0"), len(str(best)) - 1 + power
    raise ValueError(f"no decimal for {float(exact)!r}")
