"""The program `toolrun`: its commands, and the boundary at which every exception becomes one line and an exit code.

The help page is made from the table below, so that `--help` and `--version` import click and nothing else. The module
of a command is imported when the command is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from toolrun.cli.exit import INTERRUPTED, READER_GONE, UNEXPECTED, USAGE, end_process
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import complain, explain_unexpected
from toolrun.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """The module of a command, and its help in one line."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, Entry]] = {
    "list": Entry("list", "List the tools."),
    "describe": Entry("describe", "Show the description and the parameters of a tool."),
    "call": Entry("call", "Call a tool and print its result."),
    "ask": Entry("ask", "Ask a model that may use the tools."),
    "chat": Entry("chat", "Chat with a model that may use the tools."),
    "voice": Entry("voice", "Answer spoken commands with a model and the tools."),
    "log": Entry("log", "List the calls that were made."),
    "show": Entry("show", "Show everything that is known about one call."),
    "replay": Entry("replay", "Make a call again, and show what is different."),
    "stats": Entry("stats", "Count calls and failures, and time them, by tool."),
    "effects": Entry("effects", "List the calls that may have acted, and settle them."),
    "approvals": Entry("approvals", "List the calls that are waiting for approval, and answer them."),
    "trust": Entry("trust", "Show tools of MCP servers that have changed, and accept them."),
    "serve": Entry("serve", "Offer the tools to MCP clients."),
    "console": Entry("console", "Open the web console in a browser."),
    "record": Entry("record", "Record the calls of another command, for tests."),
    "import": Entry("import_", "Copy MCP servers from the configuration of other programs."),
    "install": Entry("install", "Add toolrun to the configuration of an MCP client."),
    "init": Entry("init", "Create a project with a tool to start from."),
    "new": Entry("new", "Create a new tool from a template."),
    "sync": Entry("sync", "Create the environments of all scripts in advance."),
    "cache": Entry("cache", "Show what toolrun keeps in its cache, and delete it."),
    "completion": Entry("completion", "Print the completion script of a shell."),
    "workers": Entry("workers", "List the processes that run script tools."),
    "cluster": Entry("cluster", "Make machines the nodes of a cluster, on which scripts run."),
    "doctor": Entry("doctor", "Check the installation, the configuration and every tool."),
}


class Commands(click.Group):
    """The group of all commands. Each is the `command` of its module, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = import_module(f"toolrun.cli.commands.{entry.module}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The commands from the table: no module of a command is imported for that."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=it.help) for name, it in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            from toolrun.text import suggestion

            raise click.UsageError(f"there is no command '{args[0]}'; {suggestion(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="toolrun COMMAND --help shows the options of a command.",
)
@shared_options(envvar="TOOLRUN_CONFIG")
@click.version_option(__version__, message="toolrun %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Run the tools that AI models call: checked arguments, real deadlines, exactly one answer."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    if "_TOOLRUN_LINE" in os.environ:  # a shell asks for completions
        from toolrun.cli.shell_completion import answer_shell

        return answer_shell(program)
    options = Options()
    try:
        code = _guarded(args, options)
        end_process(code, is_stuck=options.is_stuck)
    except KeyboardInterrupt:  # again, while the process is ending
        os._exit(INTERRUPTED)
    return code


def _guarded(args: Sequence[str] | None, options: Options) -> int:
    """Run the program; every exception becomes an exit code."""
    try:
        code: Any = program.main(args, prog_name="toolrun", standalone_mode=False, obj=options)
        return int(code or 0)
    except click.Abort as abort:
        complain("\n".join(["interrupted", *abort.args]), after_echo=True)
        return INTERRUPTED
    except click.ClickException as error:
        complain(_usage(error))
        return USAGE
    except SystemExit:  # click's, when nobody reads the help page
        return READER_GONE
    except Exception as error:  # noqa: BLE001  the outermost boundary: no traceback reaches a user
        from toolrun.errors import ToolrunError

        if isinstance(error, ToolrunError):
            complain(str(error))
            return USAGE
        explain_unexpected(error, with_traceback=options.verbosity > 1)
        return UNEXPECTED


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}\nTry '{context.command_path} --help'." if context else message
