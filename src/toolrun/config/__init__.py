"""toolrun.toml, environment variables and flags, loaded into one frozen `Config`."""
