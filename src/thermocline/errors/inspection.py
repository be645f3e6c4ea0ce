"""Errors of explain, pins and verify, TC7xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError


class PinHeldByOther(RefusedError):
    """The pin is held by another role."""

    code = "TC701"
    hint = "Only its holder or an operator, who may delete from thermocline.read_pins, releases a pin."


class NotExplainable(RefusedError):
    """The statement cannot be explained."""

    code = "TC702"
    hint = "Give one SELECT, INSERT, UPDATE, DELETE, MERGE or COPY … FROM."


class NothingToRepairFrom(RefusedError):
    """The heap does not hold the rows that a repair would need."""

    code = "TC703"
    hint = (
        "Ranges are repaired from the heap; for one that only the lake holds, go back to an older snapshot of the lake."
    )


class NoSuchPin(RefusedError):
    """There is no such pin, and there never was."""

    code = "TC704"
    hint = "`thermocline pins` lists those that readers hold."
