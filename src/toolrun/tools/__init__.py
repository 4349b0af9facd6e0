"""What a tool is: the collection of tools, functions made into tools, and what a running call knows."""
