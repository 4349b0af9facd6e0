"""Public names that are imported when they are first asked for."""

from __future__ import annotations

import pytest

from toolrun._lazy import export


def test_a_name_that_its_own_module_would_hide_is_refused() -> None:
    with pytest.raises(AssertionError, match="hides the public name"):
        export("package", {"explain": ["explain"]})
