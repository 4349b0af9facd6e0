"""The HTTP API of `toolrun serve --http`, beside MCP on the same port and behind the same guard."""
