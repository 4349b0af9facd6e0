"""Script tools: Python files that declare their own dependencies and run in processes of their own."""
