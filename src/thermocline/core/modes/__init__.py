"""The modes a table is registered in: their properties, options, routes and the advice which one to choose."""
