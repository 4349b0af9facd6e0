"""The text that Prometheus reads."""

from __future__ import annotations

from toolrun.server.prometheus import CallCounters


def test_no_label_of_a_metric_ends_its_line_or_its_quotes() -> None:
    text = CallCounters().render([("workers", "Workers.", [("", {"script": 'a\\b"c\nd.py'}, 1)])])
    assert text.decode().splitlines()[-1] == r'workers{script="a\\b\"c\nd.py"} 1'
