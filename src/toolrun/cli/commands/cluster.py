"""`toolrun cluster`: makes machines the head and the nodes of a Ray cluster."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final, NoReturn

import click

from toolrun.cli.exit import OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout, inform
from toolrun.cluster.credentials import Credentials, invite, make_head_credentials, read_credentials
from toolrun.cluster.ray_start import PORT, head_command, node_command, ray_variables
from toolrun.errors import UsageError
from toolrun.extra import is_installed, missing
from toolrun.json import JSON

_TOKENS: Final = ("RAY_AUTH_TOKEN",)
"""Ray takes it instead of the file."""

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    envvar="TOOLRUN_CLUSTER",
    metavar="DIR",
    help="Where the token and the certificates are. Default: $TOOLRUN_CLUSTER, or ~/.config/toolrun/cluster.",
)
_port = click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Where the head listens."
)
_cpus = click.option("--cpus", type=click.IntRange(min=0), help="CPUs for tools. 0 for a machine that only calls.")
_ray_options = click.argument("ray_options", nargs=-1, type=click.UNPROCESSED)


@click.group(name="cluster")
def command() -> None:
    """Make machines the head and the nodes of a Ray cluster, on which scripts run with [workers] engine = "ray"."""


@command.command()
@click.option(
    "--address", metavar="IP", help="The address of this machine that the others use. Required the first time."
)
@click.option("--no-start", is_flag=True, help="Create the folder, but start nothing.")
@_port
@_cpus
@_folder
@_ray_options
@shared_options()
@click.pass_obj
def head(
    options: Options,
    address: str | None,
    no_start: bool,
    port: int,
    cpus: int | None,
    folder: Path | None,
    ray_options: tuple[str, ...],
) -> int:
    """Run the head of a cluster on this machine, until it is stopped.

    The first time, it makes the token of the cluster, and the key that signs the certificates of its machines. Options
    of Ray's own come after a --, such as -- --num-gpus=1.
    """
    at = _folder_of(folder)
    credentials = read_credentials(at) if address is None else make_head_credentials(at, address)
    if no_start:
        inform(f"{at} is the folder of a head at {credentials.address}.")
        return OK
    inform(f"The head of the cluster is {_joined(credentials.address, port)}, and its folder is {at}.")
    _become(head_command(credentials, port, (*_cpu_options(cpus), *ray_options)), credentials)


@command.command()
@click.argument("head")
@_cpus
@_folder
@_ray_options
@shared_options()
@click.pass_obj
def node(options: Options, head: str, cpus: int | None, folder: Path | None, ray_options: tuple[str, ...]) -> int:
    """Run a node of the cluster whose head is at HEAD (IP or IP:PORT) on this machine, until it is stopped.

    It needs the folder that `toolrun cluster invite` has made for this machine on the head. With --cpus 0 no tool runs
    here: so is a machine that only calls tools, which has to be a node as well.
    """
    credentials = read_credentials(_folder_of(folder))
    _become(node_command(credentials, _with_port(head), (*_cpu_options(cpus), *ray_options)), credentials)


@command.command(name="invite")
@click.argument("addresses", metavar="IP...", nargs=-1, required=True)
@click.option("--name", "names", metavar="DNS", multiple=True, help="Another name for the machine. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@_folder
@shared_options()
@click.pass_obj
def invite_machines(
    options: Options, addresses: tuple[str, ...], names: tuple[str, ...], as_json: bool, folder: Path | None
) -> int:
    """Make the folders of other machines, on the head. Each is to be copied to its machine, and is secret.

    Prints the path of each.
    """
    output, at = claim_stdout(), _folder_of(folder)
    made: list[JSON] = []
    for address in addresses:
        folder_of_machine = str(invite(at, address, names).folder)
        made.append({"address": address, "folder": folder_of_machine})
        if not as_json:
            output.text(folder_of_machine)
    if as_json:
        output.json(made)
    inform("Copy each to ~/.config/toolrun/cluster on its machine, then run there: toolrun cluster node HEAD")
    return OK


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@_folder
@shared_options()
@click.pass_obj
def env(options: Options, as_json: bool, folder: Path | None) -> int:
    """Print Ray's variables for a program that uses the cluster from this machine, one NAME=value a line.

    None of them is secret: they name files. For a shell: set -a; eval "$(toolrun cluster env)"; set +a
    """
    output = claim_stdout()
    variables = ray_variables(read_credentials(_folder_of(folder)))
    if as_json:
        output.json(dict(variables))
    else:
        for name, value in variables.items():
            output.text(f"{name}={shlex.quote(value)}")
    return OK


def _folder_of(folder: Path | None) -> Path:
    if folder is None:
        base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        folder = Path(base).expanduser() / "toolrun" / "cluster"
    return folder.absolute()


def _cpu_options(cpus: int | None) -> tuple[str, ...]:
    return () if cpus is None else (f"--num-cpus={cpus}",)


def _with_port(head: str) -> str:
    host, colon, port = head.rpartition(":")
    if not colon or ("]" not in head and head.count(":") > 1):
        return _joined(head, PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(
            f"HEAD is an IP address, such as 10.0.0.1, or one with a port, such as 10.0.0.1:{PORT}; got {head!r}"
        )
    return head


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _become(program: list[str], credentials: Credentials) -> NoReturn:
    """Be Ray from here on. Raises MissingExtraError."""
    if not is_installed("ray"):
        raise missing("ray", ImportError(name="ray"), "a machine of a cluster")
    variables = {name: value for name, value in os.environ.items() if name not in _TOKENS}
    os.execve(program[0], program, {**variables, **ray_variables(credentials)})
