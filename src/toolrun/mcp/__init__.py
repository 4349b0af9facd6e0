"""MCP, both ways: tools of servers for us, and our tools for clients."""
