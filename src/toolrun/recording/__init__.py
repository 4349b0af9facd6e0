"""Calls that are recorded in full into a file, and played back without the tools: for tests, in any language."""
