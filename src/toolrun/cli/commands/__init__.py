"""The commands, one file each, named after it. Each file has a click command named `command`."""
