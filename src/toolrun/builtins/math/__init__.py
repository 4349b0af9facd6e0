"""A calculator with exact arithmetic: the builtin `math_eval`."""
