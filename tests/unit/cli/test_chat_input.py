"""What somebody types at the prompt of `chat`: lines that go on, and files that go with a question."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolrun.cli.chat_input import MAX_FILE, MAX_IMAGE, Image, TypedQuestion, read_question, with_files
from toolrun.errors import UsageError


def typed(*lines: str) -> tuple[Callable[[str], str | None], list[str]]:
    """What reads these lines, and the prompts that it was shown."""
    left, prompts = list(lines), list[str]()

    def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return left.pop(0) if left else None

    return read, prompts


@pytest.mark.parametrize(
    ("lines", "question"),
    [
        (["Hello"], "Hello"),
        (["one\\", "two\\", "three"], "one\ntwo\nthree"),
        (["one\\"], "one\n"),
        (["\\", "two"], "\ntwo"),
        ([], None),
        (["a \\b"], "a \\b"),
    ],
)
def test_a_backslash_at_its_end_continues_a_line(lines: list[str], question: str | None) -> None:
    read, prompts = typed(*lines)
    assert read_question(read, "> ", "... ") == question
    assert prompts == ["> ", *["... "] * (len(prompts) - 1)]


def test_files_stand_behind_the_question_each_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk\nbread\n")
    (tmp_path / "with space.md").write_text("# Title")
    asked = with_files('Compare @notes.txt with @"with space.md", and @notes.txt again', tmp_path)
    assert asked.images == ()
    assert asked.text == (
        'Compare @notes.txt with @"with space.md", and @notes.txt again\n\n'
        '<file name="notes.txt">\nmilk\nbread\n</file>\n\n<file name="with space.md">\n# Title\n</file>'
    )


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Write to ann@example.com", "Write to ann@example.com"),
        ("Who is @@ann?", "Who is @ann?"),
        ("Nothing", "Nothing"),
        ("a lone @ is one", "a lone @ is one"),
    ],
)
def test_an_at_that_names_no_file_stays(question: str, asked: str, tmp_path: Path) -> None:
    assert with_files(question, tmp_path) == TypedQuestion(asked)


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_a_picture_is_attached_as_what_it_is_and_not_as_its_name_says(
    beginning: bytes, kind: str, tmp_path: Path
) -> None:
    content = beginning + bytes(MAX_FILE)
    (tmp_path / "picture.png").write_bytes(content)
    assert with_files("What is on @picture.png ?", tmp_path) == TypedQuestion(
        "What is on @picture.png ?", (Image("picture.png", kind, content),)
    )


def test_what_cannot_be_attached_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\xff\x00")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7\n\x00\xff")
    (tmp_path / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(MAX_IMAGE))
    (tmp_path / "big.txt").write_text("x" * (MAX_FILE + 1))
    os.mkfifo(tmp_path / "pipe")
    for name in "abc":
        (tmp_path / name).write_text("x" * (MAX_FILE - 1))
    for name in "123":
        (tmp_path / f"{name}.png").write_bytes((b"\x89PNG\r\n\x1a\n" + bytes(MAX_IMAGE))[:MAX_IMAGE])
    for question, error in {
        "@missing": "@missing cannot be read: No such file or directory; write @@missing if it is not a file",
        "@photo.png": "@photo.png is neither a text file in UTF-8 nor a picture (PNG, JPEG, GIF, WebP)",
        "@paper.pdf": "@paper.pdf is neither a text file in UTF-8 nor a picture (PNG, JPEG, GIF, WebP)",
        "@large.png": "it is larger than 3,750,000 bytes",
        "@big.txt": "it is larger than 200,000 bytes",
        "@pipe": "it is a named pipe, not a regular file",
        "@.": "Is a directory",
        "@a @b @c": "more than 500,000 bytes in total",
        "@1.png @2.png @3.png": "more than 10,000,000 bytes in total",
    }.items():
        with pytest.raises(UsageError) as raised:
            with_files(f"Look at {question}", tmp_path)
        assert error in str(raised.value)
