"""Where tools come from: one module per kind of source."""
