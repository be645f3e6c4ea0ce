"""Pure parts: no I/O, no clock. Values in, values out."""
