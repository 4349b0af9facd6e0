"""The configuration files of other programs that start MCP servers: read, copied from, and written to."""
