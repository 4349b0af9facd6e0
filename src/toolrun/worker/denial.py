"""Whether an exception is the sandbox's doing, and if so, what was refused and which line of toolrun.toml allows it.

Judges by the number and the path of an OSError, by the stack of a call that opened a socket or started a program, and
by the words of the host's proxy. The policy comes with the plan (`processes/sandbox/plan.py`, `about`). Imported when a
tool has raised something behind walls, never before. Standard library only, Python 3.9 or newer.

    number          path                                     refused
    EROFS           outside of what may be written           writing
    EACCES          outside of what may be read              reading, or writing if the stack says so
    EACCES          readable, not writable                   writing, unless its mode forbids reading it
    EACCES          a program                                starting it
    EACCES          none, in a socket                        the network
    ENOENT          in a place that looks empty              seeing it
    EXDEV           two roots, or one that is not writable   renaming
    EPERM           none                                     a system call

A KeyError of os.environ is a variable that was not passed on. What is inside the roots and fails all the same has
another reason, and nothing is said.
"""

from __future__ import annotations

import errno
import os
import sys

from .grant import BARE, in_section, line_of, to_allow, with_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    Policy = dict[str, Any]

_MAX_CHAIN = 20
_BY_PROXY = "by the sandbox"
"""How the host's proxy ends the phrase of an answer with 403."""
_NAME_UNKNOWN = (-2, -3)
"""EAI_NONAME, EAI_AGAIN."""
_HTTP = frozenset({"aiohttp", "http", "httpcore", "httpx", "requests", "urllib", "urllib3"})
"""Libraries that use the proxy which HTTPS_PROXY names."""
_WRITERS = frozenset(
    {"link", "makedirs", "mkdir", "mkfifo", "remove", "rename", "replace", "rmdir", "rmtree", "symlink", "touch"}
    | {"truncate", "unlink", "write_bytes", "write_text"}
)
_FILES = frozenset({"os", "pathlib", "shutil", "tempfile"})
"""Modules whose functions of these names write."""
_STARTERS = frozenset({"execv", "execve", "posix_spawn", "posix_spawnp"})
_OF_A_HOST = BARE | {"."}


def explain(error: BaseException, policy: Policy) -> str:
    """A sentence or two to follow the text of the exception; empty if the sandbox has nothing to do with it."""
    try:
        chain = list(_chain(error))
        for link in chain:
            said = _explain(link, policy, chain)
            if said:
                return said
    except Exception:  # noqa: BLE001  attributes of foreign exceptions and frames
        pass
    return ""


def _explain(error: BaseException, policy: Policy, chain: list[BaseException]) -> str:
    """The same for one exception of a chain."""
    parts = getattr(error, "exceptions", None)
    if isinstance(parts, tuple) and parts:  # a group, of which all parts must agree
        said = [explain(part, policy) for part in parts[:_MAX_CHAIN]]
        return said[0] if all(said) else ""
    if policy["hosts"] is not None and _BY_PROXY in str(error):
        return _refused_by_proxy(policy, chain)
    if isinstance(error, KeyError):
        return _missing_variable(error, policy)
    if not isinstance(error, OSError):
        return ""
    if _is_network(error, policy):
        return _refused_network(policy, chain)
    program = _program(error) if error.errno == errno.EACCES else ""
    if program:
        return _refused_program(program, policy)
    if error.errno == errno.EPERM and error.filename is None:
        return (
            "The sandbox refuses system calls that reach other processes, mounts or the kernel; this was probably one "
            "of them. No permission allows it."
        )
    return _refused_file(error, policy)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what led to it, as a traceback shows them."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen and len(seen) < _MAX_CHAIN:
        seen.append(following)
        yield following
        cause = following.__cause__
        following = cause if cause is not None or following.__suppress_context__ else following.__context__


def _frames(errors: Iterable[BaseException]) -> list[FrameType]:
    """Where they passed, the innermost first. `errors` begins with the outermost."""
    found: list[FrameType] = []
    for error in errors:
        place = error.__traceback__
        while place is not None:
            found.append(place.tb_frame)
            place = place.tb_next
    return found[::-1]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


# Files.


def _refused_file(error: OSError, policy: Policy) -> str:
    paths = [_resolve(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
    if not paths:
        return ""
    if error.errno == errno.EXDEV:
        return _refused_rename(paths, policy)
    for path in paths:
        said = _refused_path(error, path, policy)
        if said:
            return said
    return ""


def _refused_path(error: OSError, path: str, policy: Policy) -> str:
    is_readable, is_writable = _is_readable(path, policy), _is_writable(path, policy)
    if _depth(path, policy["hidden"]) > _depth(path, policy["read"] + policy["write"]):
        is_concerned = error.errno in (errno.EACCES, errno.EROFS, errno.ENOENT)
        return f"The sandbox hides {path} from every tool." if is_concerned else ""
    if error.errno == errno.ENOENT:
        return _unseen(error, path, policy)
    if error.errno == errno.EROFS:
        return "" if is_writable else _refused("write", path, policy)
    if error.errno != errno.EACCES or is_writable:
        return ""
    if not is_readable:
        return _refused("write" if _is_writing(error) else "read", path, policy)
    return _refused("write", path, policy) if os.access(path, os.R_OK) or not os.path.exists(path) else ""


def _unseen(error: OSError, path: str, policy: Policy) -> str:
    """It may be there or not: the place looks empty to this process."""
    place = max((it for it in policy["covered"] if _is_below(path, it)), key=len, default="")
    root = max((it for it in policy["read"] + policy["write"] if _is_below(path, it)), key=len, default="")
    if not place or len(root) > len(place):
        return ""
    if root == place:
        hides = f"The sandbox gives this tool a {place} of its own, without the files of other programs."
    else:
        hides = f"The sandbox hides {f'what is below {place}' if place != '/' else 'most files'} from this tool."
    key = "write" if _is_writing(error) else "read"
    return f"{hides} If {path} exists, {with_entry(key, _suggested(path, key, policy), policy)}"


def _refused(key: str, path: str, policy: Policy) -> str:
    if key == "write" and not _may_write(path):
        return ""  # nor might its user
    lines = with_entry(key, _suggested(path, key, policy), policy)
    return f"The sandbox does not let this tool {key} {path}. To allow it, {lines}"


def _refused_rename(paths: list[str], policy: Policy) -> str:
    for path in paths:
        if not _is_writable(path, policy):
            return _refused("write", path, policy)
    roots = [max((root for root in policy["write"] if _is_below(path, root)), key=len) for path in paths]
    if len(set(roots)) < 2:
        return ""
    return f"In the sandbox, {' and '.join(roots)} are two file systems. shutil.move copies from one to the other."


def _resolve(name: str | bytes) -> str:
    return os.path.realpath(os.fsdecode(name))


def _is_below(path: str, root: str) -> bool:
    return root == "/" or path == root or path.startswith(f"{root}/")


def _depth(path: str, roots: Iterable[str]) -> int:
    """How long the longest of the roots is that the path is below; -1 if there is none."""
    return max((len(root) for root in roots if _is_below(path, root)), default=-1)


def _is_readable(path: str, policy: Policy) -> bool:
    return _depth(path, policy["read"] + policy["write"]) >= 0


def _is_writable(path: str, policy: Policy) -> bool:
    depth = _depth(path, policy["write"])
    return depth >= 0 and depth >= _depth(path, policy["protected"] + policy["read"])


def _may_write(path: str) -> bool:
    """Whether the rights of a file, or of the directory that it would be in, let this user write."""
    place = path
    while not os.path.lexists(place) and place != "/":
        place = os.path.dirname(place)
    user = os.geteuid()
    about = os.stat(place)
    if user == 0 or about.st_mode & 0o002:
        return True
    if about.st_uid == user:
        return bool(about.st_mode & 0o200)
    return bool(about.st_mode & 0o020) and about.st_gid in (os.getegid(), *os.getgroups())


def _is_writing(error: OSError) -> bool:
    """Whether the stack shows a function or a mode for writing. The exception itself does not tell."""
    frames = _frames([error])
    for frame in frames:
        mode = frame.f_locals.get("mode")
        is_open = frame.f_code.co_name == "open" and isinstance(mode, str) and not {"w", "a", "x", "+"}.isdisjoint(mode)
        if is_open or (frame.f_code.co_name in _WRITERS and _module(frame).partition(".")[0] in _FILES):
            return True
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    import linecache
    import re

    line = linecache.getline(place.tb_frame.f_code.co_filename, place.tb_lineno)
    calls = re.findall(r"(\w+)\s*\(", line)
    return not _WRITERS.isdisjoint(calls) or bool(re.search(r"""open\s*\(.*["'][rbt]*[wax+][bt+]*["']""", line))


def _suggested(path: str, key: str, policy: Policy) -> str:
    """What to grant: the directory of a file, but neither one with all sorts of things in it nor one with secrets."""
    protected = max((it for it in policy["protected"] if _is_below(path, it)), key=len, default="")
    if protected and key == "write":
        return protected
    parent = os.path.dirname(path)
    is_broad = parent.count("/") < 2 or _is_below(policy["home"], parent)
    is_private = key == "read" and "/." in path
    return path if is_broad or is_private or os.path.isdir(path) else parent


# Variables.


def _missing_variable(error: KeyError, policy: Policy) -> str:
    frames = _frames([error])
    name = error.args[0] if error.args else None
    if not frames or (_module(frames[0]), frames[0].f_code.co_name) != ("os", "__getitem__"):
        return ""
    if not isinstance(name, str) or name in policy["given"]["env"]:
        return ""
    return f"A tool gets the variables that it is granted. If toolrun has {name}, {with_entry('env', name, policy)}"


# Programs.


def _program(error: OSError) -> str:
    """The program that was to be started when the exception was raised."""
    frames = _frames([error])
    for frame in frames:
        name, module, names = frame.f_code.co_name, _module(frame), frame.f_locals
        if module == "subprocess" and name == "_execute_child" and error.filename == names.get("orig_executable"):
            return _text(error.filename)
        if module == "os" and name == "_execvpe":
            return _text(names.get("file"))
    if frames and error.filename is not None and not _STARTERS.isdisjoint(frames[0].f_code.co_names):
        return _text(error.filename)
    return ""


def _refused_program(program: str, policy: Policy) -> str:
    if policy["run"]:  # all that can be read
        path = _resolve(program)
        return "" if "/" not in program or _is_readable(path, policy) else _refused("read", path, policy)
    import shutil

    file = shutil.which(program)
    if file is None or os.path.realpath(file) in policy["programs"]:
        return ""
    line = line_of("run", [*policy["programs"], program])
    return f"The sandbox does not let this tool start {program}. {to_allow(line, policy, policy['programs'])}"


# The network.


def _is_network(error: OSError, policy: Policy) -> bool:
    """Whether it says that the network cannot be reached, where the sandbox sees to that."""
    if policy["net"] and policy["hosts"] is None:
        return False
    sockets = sys.modules.get("_socket")
    if sockets is not None and isinstance(error, sockets.gaierror):
        return error.errno in _NAME_UNKNOWN
    if error.filename is not None:
        return False
    if error.errno in (errno.ENETUNREACH, errno.ECONNREFUSED) and policy["hosts"] is not None:
        return True
    return error.errno == errno.EACCES and any(_module(frame) == "socket" for frame in _frames([error]))


def _refused_network(policy: Policy, chain: list[BaseException]) -> str:
    frames = _frames(chain)
    target = _target(frames) or _target_of_request(chain)
    if policy["hosts"]:
        return (
            f"The sandbox lets this tool reach the hosts in net through the proxy that HTTPS_PROXY names, and nothing "
            f"directly{f', so not {target}' if target else ''}. To allow it, set net = true {in_section(policy)}"
        )
    refused = f"reach {target}" if target else "use the network"
    uses_proxy = any(_module(frame).partition(".")[0] in _HTTP for frame in frames)
    line = line_of("net", [target]) if target and uses_proxy and policy["has_proxy"] else "net = true"
    return f"The sandbox does not let this tool {refused}. {to_allow(line, policy, policy['hosts'] is not None)}"


def _refused_by_proxy(policy: Policy, chain: list[BaseException]) -> str:
    target = _tunnel(_frames(chain)) or _target_of_request(chain)
    if not target:
        return f"The sandbox does not let this tool reach the host. To allow it, add it to net {in_section(policy)}"
    if target in policy["hosts"]:
        return (
            f"The sandbox does not let this tool reach {target}: the name leads to an address of this machine or its "
            f"network. To allow it, add the address, which the log of toolrun names, to net {in_section(policy)}"
        )
    line = line_of("net", [*policy["hosts"], target])
    return f"The sandbox does not let this tool reach {target}. {to_allow(line, policy, is_changed=True)}"


def _target(frames: Iterable[FrameType]) -> str:
    """The host and port of a connection, as the functions that were to open it have them."""
    for frame in frames:
        names = frame.f_locals
        address = names.get("address")
        pairs = [(names.get("host"), names.get("port")), (names.get("remote_host"), names.get("remote_port"))]
        if isinstance(address, tuple) and len(address) > 1:
            pairs.append(address[:2])
        for host, port in pairs:
            found = _endpoint(host, port)
            if found:
                return found
    return ""


def _tunnel(frames: Iterable[FrameType]) -> str:
    """The same of a connection through a proxy (`http.client`)."""
    for frame in frames:
        own = frame.f_locals.get("self")
        found = _endpoint(getattr(own, "_tunnel_host", None), getattr(own, "_tunnel_port", None))
        if found:
            return found
    return ""


def _target_of_request(chain: Iterable[BaseException]) -> str:
    """The same from the URL that an exception of an HTTP library has."""
    from urllib.parse import urlsplit

    for error in chain:
        for owner in (error, _attribute(error, "request"), _attribute(error, "request_info")):
            url = _attribute(owner, "url")
            parts = urlsplit(str(url)) if url is not None else None
            if parts is not None and parts.hostname:
                return _endpoint(parts.hostname, parts.port or (443 if parts.scheme in ("https", "wss") else 80))
    return ""


def _attribute(owner: object, name: str) -> object:
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001  a property of httpx raises RuntimeError where it has no request
        return None


def _endpoint(host: object, port: object) -> str:
    name = _text(host).lower()
    if not name or not _OF_A_HOST.issuperset(name.replace(":", "")):
        return ""
    name = f"[{name}]" if ":" in name else name
    number = _text(port)
    return f"{name}:{number}" if number.isdigit() else name


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
