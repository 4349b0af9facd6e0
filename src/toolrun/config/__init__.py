"""toolrun.toml, environment variables and flags, read into one frozen `Config`."""
