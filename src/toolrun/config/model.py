"""What can be set for the executor, a tool and an MCP server. Values only: who reads them is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from toolrun.json import JSON


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may run, wait and be returned."""

    max_concurrency: int = 256
    """Calls that run at the same time. Calls made by a tool (`ToolContext.call_tool`) do not count: they could wait
    for a place that their own caller holds."""
    max_queue: int = 1024
    """Calls that wait for a place. The wait counts against the deadline; a call beyond is answered `overloaded`."""
    max_abandoned: int = 32
    """Threads that still run a sync tool after its deadline. From then on sync calls are answered `overloaded`."""
    max_result_chars: int = 100_000
    """The longest text a model gets. Longer ones keep head and tail; `ToolResult.result` keeps everything."""
    slow_call: float = 1.0
    """Seconds from which on a call is logged as slow."""
    strict: bool = False
    """Refuse arguments that the schema does not know, instead of dropping them."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the user set for one tool."""

    enabled: bool = True
    timeout: float | None = None
    """Seconds; `None` leaves it to the tool's definition, then to the executor."""
    concurrency: int | None = None
    """Calls of this tool that run at the same time; `None` is no limit of its own."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the tool is granted."""
    config: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """The tool's own section, passed on as it is."""


@dataclass(frozen=True, slots=True)
class McpSettings:
    """How MCP servers are connected to: what holds for all of them."""

    delays: tuple[float, ...] = (0.0, 2.0, 4.0)
    """Seconds before each attempt to connect when the program starts. There are as many attempts as delays."""
    longest_delay: float = 60.0
    """After those, a server is tried again after twice the delay of the last time, up to so many seconds."""
    start_timeout: float = 30.0
    """Seconds that one attempt may take, until the tools are listed."""
    grace: float = 5.0
    """Seconds that a stdio server has to say anything after a call was given up; if it does not, it is restarted."""
    max_message_mb: int = 16
    """Megabytes of one message of a server. A longer one is dropped, and costs its own call an answer."""
    files: tuple[str, ...] = ()
    """Files of other programs with servers (`.mcp.json`), relative to the configuration file."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One MCP server: a command to start it, or the address at which it runs."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """Environment variables, besides PATH, HOME, USER, LOGNAME, SHELL, TERM and the locale."""
    cwd: str = ""
    """The directory it is started in, relative to the configuration file."""
    url: str = ""
    transport: str = ""
    """`stdio`, `http` or `sse`. Empty: stdio for a command, http for a URL."""
    headers: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """HTTP headers of every request."""
    enabled: bool = True
    include: tuple[str, ...] = ()
    """Patterns of the tools that are used; empty for all."""
    exclude: tuple[str, ...] = ()
    """Patterns of the tools that are not."""
    timeout: float | None = None
    """Seconds that a call of its tools may take, unless [tool.NAME] says otherwise."""
    start_timeout: float | None = None
    """Seconds that one attempt to connect may take; without it that of [mcp]."""
    hint: str = ""
    """What to check when it cannot be reached, such as "Is the MQTT broker running?"."""
    parameters: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """Names of parameters that models tend to use, and what the server calls them: `{ command = "action" }`."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model that `toolrun ask`, `chat` and `voice` use, and what it may do in one turn."""

    use: str = ""
    """`anthropic:MODEL`, `ollama:MODEL`, `local:FILE.gguf` or `scripted:FILE`. Empty: whichever is there."""
    base_url: str = ""
    """Where the provider is reached; empty for its usual address."""
    api_key: str = field(default="", repr=False)
    """Empty: the variable that the provider's own package reads, such as ANTHROPIC_API_KEY."""
    system: str = ""
    """What the model is told before every conversation."""
    rounds: int = 10
    """Times that the model may ask for tools in one turn."""
    calls: int = 100
    """Calls in all rounds of a turn together."""
    time: float = 600.0
    """Seconds for all rounds of a turn together."""
    answer_time: float = 300.0
    """Seconds for one answer of the model."""
    wording: str = ""
    """A file with what the model is told at these limits, relative to the configuration file."""


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """The voice gateway: what it listens to, how it remembers, and how it speaks."""

    mode: str = "queue"
    """`queue`: one utterance after the other. `barge_in`: a new one interrupts the one before."""
    queue: int = 8
    """Utterances that may wait; one more is refused."""
    memory: float = 300.0
    """Seconds after an answer until the conversation is forgotten."""
    mqtt: str = field(default="", repr=False)
    """The broker: `mqtt://user:password@host:1883`, or `mqtts://` for TLS. Empty: none."""
    prefix: str = "voice"
    """The beginning of all topics."""
    delays: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)
    """Seconds before each further attempt to reach the broker; the last is repeated."""
    phrases: str = ""
    """A file with what is said when something fails, relative to the configuration file."""
    speech_in: str = "sphinx"
    """The engine that hears: `sphinx` (a grammar of commands) or `whisper` (anything)."""
    speech_model: str = "base.en"
    """The model of `whisper`: a name, or a directory."""
    speech_out: str = ""
    """The engine that speaks: `espeak` or `piper`. Empty: nothing is spoken."""
    speech_voice: str = ""
    """The voice of `espeak` (a name), or of `piper` (a file, relative to the configuration file)."""
    devices: tuple[str, ...] = ()
    """Names of devices that may be said, for the grammar of `sphinx`."""
    commands: str = ""
    """A file with phrases that may be said, for the same, relative to the configuration file."""
