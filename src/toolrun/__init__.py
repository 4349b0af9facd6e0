"""toolrun runs the tools that AI models call: checked arguments, real deadlines, exactly one answer.

The names below are the public ones. Each is imported when it is first asked for, so that `import toolrun` costs nothing
and the command line starts fast.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export
from toolrun.version import __version__

if TYPE_CHECKING:
    from toolrun.config.load import find_config as find_config
    from toolrun.config.load import load_config as load_config
    from toolrun.config.model import Config as Config
    from toolrun.config.model import Limits as Limits
    from toolrun.config.model import ToolSettings as ToolSettings
    from toolrun.errors import ConfigError as ConfigError
    from toolrun.errors import DefinitionError as DefinitionError
    from toolrun.errors import ErrorKind as ErrorKind
    from toolrun.errors import SideEffects as SideEffects
    from toolrun.errors import ToolError as ToolError
    from toolrun.errors import ToolrunError as ToolrunError
    from toolrun.errors import UnavailableError as UnavailableError
    from toolrun.errors import UsageError as UsageError
    from toolrun.execution.approval import Allow as Allow
    from toolrun.execution.approval import ApprovalRequest as ApprovalRequest
    from toolrun.execution.approval import Deny as Deny
    from toolrun.execution.executor import ToolExecutor as ToolExecutor
    from toolrun.execution.health import Health as Health
    from toolrun.execution.log import LogObserver as LogObserver
    from toolrun.execution.observer import Observer as Observer
    from toolrun.result import Content as Content
    from toolrun.result import ToolCall as ToolCall
    from toolrun.result import ToolResult as ToolResult
    from toolrun.runtime import Runtime as Runtime
    from toolrun.schema import Repair as Repair
    from toolrun.tools.context import Call as Call
    from toolrun.tools.context import Progress as Progress
    from toolrun.tools.context import ToolContext as ToolContext
    from toolrun.tools.effects import Done as Done
    from toolrun.tools.effects import NotDone as NotDone
    from toolrun.tools.function import FunctionTool as FunctionTool
    from toolrun.tools.function import tool as tool
    from toolrun.tools.manager import ToolManager as ToolManager
    from toolrun.tools.protocol import Tool as Tool

__getattr__, __dir__, _names = export(
    __name__,
    {
        "tools.context": ["Call", "Progress", "ToolContext"],
        "tools.effects": ["Done", "NotDone"],
        "tools.function": ["FunctionTool", "tool"],
        "errors": [
            "ConfigError",
            "DefinitionError",
            "ErrorKind",
            "SideEffects",
            "ToolError",
            "ToolrunError",
            "UnavailableError",
            "UsageError",
        ],
        "execution.approval": ["Allow", "ApprovalRequest", "Deny"],
        "execution.executor": ["ToolExecutor"],
        "execution.health": ["Health"],
        "tools.manager": ["ToolManager"],
        "tools.protocol": ["Tool"],
        "execution.log": ["LogObserver"],
        "execution.observer": ["Observer"],
        "result": ["Content", "ToolCall", "ToolResult"],
        "runtime": ["Runtime"],
        "schema": ["Repair"],
        "config.load": ["find_config", "load_config"],
        "config.model": ["Config", "Limits", "ToolSettings"],
    },
)
__all__ = ["__version__", *_names]
