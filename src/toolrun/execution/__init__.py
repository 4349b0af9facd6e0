"""How one call runs: checked, admitted, stopped at its deadline, and answered exactly once."""
