"""Inputs and checks of maintenance plans: the bounds, other users of the files, and the checks of a result."""
