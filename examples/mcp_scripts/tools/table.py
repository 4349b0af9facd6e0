# /// script
# dependencies = ["tabulate>=0.9,<1"]
# ///
import tabulate


def table(rows: list[dict[str, str]]) -> str:
    """Draw a table in Markdown."""
    return tabulate.tabulate(rows, headers="keys", tablefmt="github")
