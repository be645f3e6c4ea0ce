"""Sort a bin in bounded memory."""
