"""toolrun as a server of its tools."""
