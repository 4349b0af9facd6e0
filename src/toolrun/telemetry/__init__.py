"""OpenTelemetry: spans and durations of calls, by the conventions for generative AI and MCP.

The names below are imported on first use: they need `toolrun[otel]`.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.telemetry.call_tracer import Telemetry as Telemetry
    from toolrun.telemetry.exporting import open_telemetry as open_telemetry


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    if not (error.name or "").startswith("opentelemetry"):
        return None
    from toolrun.extra import missing

    return missing("otel", error, __name__)


__getattr__, __dir__, __all__ = export(
    __name__, {"call_tracer": ["Telemetry"], "exporting": ["open_telemetry"]}, _missing
)
