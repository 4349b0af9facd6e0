"""toolrun as an MCP server of its tools."""
