"""The inline metadata of scripts, by the rules of https://peps.python.org/pep-0723/."""

from __future__ import annotations

import pytest

from toolrun.scripts.pep723 import has_header, read_metadata

GOOD = """\
#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",  # a comment
# ]
#
# [tool.toolrun]
# timeout = 5
# ///

import requests
"""
METADATA = {"requires-python": ">=3.11", "dependencies": ["requests<3"], "tool": {"toolrun": {"timeout": 5}}}


@pytest.mark.parametrize(
    "source",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD.partition("\n")[2],
        "x = 1\n" + GOOD,
        GOOD + "\n# /// other\n# not = toml at all =\n# ///\n",
        GOOD + "\n# /// scripts\n# ///\n",
    ],
)
def test_the_metadata_is_read_wherever_the_block_stands(source: str) -> None:
    assert has_header(source)
    assert read_metadata(source) == METADATA


@pytest.mark.parametrize(
    ("block", "metadata"),
    [
        ("# /// script\n#\n# ///\n", {}),
        ("# /// script\n# a = 1\n# ///", {"a": 1}),
        ("# /// script\n#  a = 1\n# ///\n", {"a": 1}),
        ('# /// script\n# a = """\n# /// not the end\n# """\n# ///\n', {"a": "/// not the end\n"}),
        ('# /// script\n# a = """\n# ///\n# """\n# ///\n', {"a": "///\n"}),
        ('# /// script\n# a = """\n#  indented\n#\n# """\n# ///\n', {"a": " indented\n\n"}),
    ],
)
def test_the_text_of_a_block_is_what_follows_the_number_sign_and_one_space(
    block: str, metadata: dict[str, object]
) -> None:
    assert read_metadata(block) == metadata


@pytest.mark.parametrize(
    "source",
    [
        "# /// script\n# a = 1\n",
        "# /// script\n# a = 1\nimport x\n# ///\n",
        "# /// script\n#a = 1\n# ///\n",
        "# /// script\n# a = = 1\n# ///\n",
        "# /// script\n# a = 1\n# a = 2\n# ///\n",
        "# /// script \n# a = 1\n# ///\n",
        GOOD + GOOD,
    ],
)
def test_what_means_to_be_metadata_but_is_malformed_is_none_and_still_a_script(source: str) -> None:
    assert read_metadata(source) is None
    assert has_header(source), "such a file must not be run as if it had no dependencies"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import x\n",
        "# /// other\n# a = 1\n# ///\n",
        "#/// script\n# a = 1\n# ///\n",
        "# // script\n# ///\n",
        "    # /// script\n    # a = 1\n    # ///\n",
        "# about /// script\n",
        "# /// scripts\n# a = 1\n# ///\n",
    ],
)
def test_a_file_without_metadata_is_no_script(source: str) -> None:
    assert read_metadata(source) is None
    assert not has_header(source)
