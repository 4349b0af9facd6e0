"""Tools of MCP servers: connections that are kept up, and calls over them."""
