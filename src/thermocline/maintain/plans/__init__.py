"""What every plan of maintenance is made from: the bounds, who else uses the files, and the checks of a result."""
