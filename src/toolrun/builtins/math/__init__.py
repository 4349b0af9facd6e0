"""A calculator that stays exact: the builtin `math_eval`."""
