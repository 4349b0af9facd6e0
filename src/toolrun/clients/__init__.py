"""Models that use the tools."""
