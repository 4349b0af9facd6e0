"""One file per command, named like it. Each has its click command as `command`."""
