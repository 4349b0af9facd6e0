"""Processes that cannot outlive their host: started, watched, and killed with everything they started.

Knows neither scripts nor MCP.
"""
