"""PEP 723 files in pools of worker processes, each with dependencies of its own."""
