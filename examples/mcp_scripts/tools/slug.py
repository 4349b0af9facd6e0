# /// script
# dependencies = ["python-slugify>=8,<9"]
# ///
import slugify


def slug(title: str) -> str:
    """Make a part of an address from a title."""
    return slugify.slugify(title)
