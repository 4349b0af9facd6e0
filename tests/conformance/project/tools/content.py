"""What the conformance suite calls: one tool for each kind of content, and for each thing that can happen to a call."""

from __future__ import annotations

from toolrun import ToolContext, ToolError, tool
from toolrun.result import Content

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def _resource(text: str, mime: str) -> dict[str, object]:
    return {"type": "resource", "resource": {"uri": "test://resource", "mimeType": mime, "text": text}}


@tool
def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Content:
    """Returns an image."""
    return Content([IMAGE])


@tool
def test_audio_content() -> Content:
    """Returns audio."""
    return Content([{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}])


@tool
def test_embedded_resource() -> Content:
    """Returns a resource."""
    return Content([_resource("This is an embedded resource content.", "text/plain")])


@tool
def test_multiple_content_types() -> Content:
    """Returns text, an image and a resource."""
    text = {"type": "text", "text": "Multiple content types test:"}
    return Content([text, IMAGE, _resource('{"test": "data", "value": 123}', "application/json")])


@tool
def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
def test_tool_with_progress(context: ToolContext) -> str:
    """Reports progress."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"{done} of 100")
    return "done"


@tool
def test_trigger_tool_change(context: ToolContext) -> str:
    """Adds a tool, or takes it out again."""
    if "test_added" in context.manager:
        context.manager.remove("test_added")
    else:
        context.manager.add(tool(name="test_added")(test_simple_text.function))
    return "changed"


@tool
def test_logging_tool(context: ToolContext) -> str:
    """Logs: on stderr, and not to the client."""
    context.logger.warning("a line of the log")
    return "logged"


@tool
def test_streaming_elicitation(context: ToolContext) -> str:
    """Answers with a stream, in which there are no questions."""
    context.progress(1, 2, "half")
    return "streamed"
