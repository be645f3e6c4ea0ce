"""The only way to delete files of the lake: the comparison that proves a file free, and what takes nothing but that proof."""
