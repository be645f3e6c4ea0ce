"""What the program tells people, as data: the nearest right name, the progress of long work."""
