"""Processes that cannot outlive us: started, watched, killed with everything they started.

Knows neither scripts nor MCP.
"""
