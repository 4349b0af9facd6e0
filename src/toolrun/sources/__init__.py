"""Where tools come from: function files, catalogs, and the project that loads them all."""
