"""Everything that can be set, as frozen dataclasses: one per section of toolrun.toml, and `Config` for all of them.

Values only. Knows neither where a value comes from nor who uses it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolrun.config.settings import Settings
from toolrun.json import JSON

if TYPE_CHECKING:
    from pathlib import Path  # takes as long to import as everything else of this room


class Limits(Settings):
    """How much may run, wait and be returned."""

    max_concurrency: int = 256
    """Calls that run at the same time. Calls made by a tool (`ToolContext.call_tool`) do not count: they could wait
    for the slot that their own caller holds."""
    max_queue: int = 1024
    """Calls that wait for a slot. The wait counts against the deadline; further calls are answered `overloaded`."""
    max_abandoned: int = 32
    """Threads that still run a sync tool after its deadline. At this limit, sync calls are answered `overloaded`."""
    max_result_chars: int = 100_000
    """The longest text a model gets. A longer one keeps its head and tail; `ToolResult.result` keeps everything."""
    slow_call: float = 1.0
    """Calls that take more than so many seconds are logged as slow."""
    strict: bool = False
    """Refuse arguments that are not in the schema, instead of dropping them."""


class EnvironmentSettings(Settings):
    """Environment variables from a file."""

    file: str = ""
    """The file, such as `.env`, relative to the configuration file. A variable that is set already keeps its value."""


class FileSettings(Settings):
    """The files with tools: glob patterns, relative to the configuration file."""

    python: tuple[str, ...] = ("tools/*.py",)
    catalogs: tuple[str, ...] = ("tools/*.json", "tools/*.yaml", "tools/*.yml", "tools/*.toml")


class Permissions(Settings):
    """What a sandboxed process may do, besides what its sandbox allows anyway."""

    net: bool | tuple[str, ...] | None = None
    """Whether it has the network, or the hosts that it may reach, as `example.com:443`. `None`: the sandbox decides."""
    read: tuple[str, ...] = ()
    """Files and directories, relative to the configuration file."""
    write: tuple[str, ...] = ()
    """The same, for reading and writing."""
    run: bool | tuple[str, ...] | None = None
    """Whether it may start programs, or which: `git`. `None`: the sandbox decides."""
    env: tuple[str, ...] = ()
    """Environment variables that it gets."""


class ToolSettings(Settings):
    """The settings of one tool."""

    enabled: bool = True
    timeout: float | None = None
    """Seconds. `None`: the tool's definition decides, then the executor."""
    concurrency: int | None = None
    """Calls of this tool that run at the same time; `None` for no limit."""
    effects: str | None = None
    """What a second call would do: `none`, `idempotent`, `keyed` or `once`. `None`: the tool's definition decides."""
    key_argument: str = ""
    """The parameter that takes the idempotency key of a call. toolrun fills it, and models do not see it."""
    verify: str | None = None
    """The tool that finds out whether a call of this one has acted. `None`: the tool's definition decides."""
    settle_after: float | None = None
    """Seconds after which a call on a server cannot act any more. `None`: the timeout, and 30 s at least."""
    approval: str = ""
    """Whether a call may be made: `allow`, `ask` or `deny`. Empty: the tool's definition decides, then [approval]."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets granted to the tool."""
    config: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """The tool's own section, passed to it unchanged."""
    sandbox: str = ""
    """The sandbox of a script: `standard`, `strict` or `off`. Empty: that of [workers]."""
    engine: str = ""
    """Where the processes of a script run: `local` or `ray`. Empty: [workers] says it."""
    replicas: int | None = None
    """Processes of a script that run at the same time. `None`: max_workers of [workers]."""
    resources: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """What each of them reserves on a node: `{ CPU = 1, GPU = 1 }`. Empty: half a CPU."""
    retries: int = 0
    """How often a call is made again whose process died, if its effects are `none`, `idempotent` or `keyed`."""
    permissions: Permissions = field(default_factory=Permissions)
    """What a script may do, besides what its sandbox allows. They belong to the name of its file."""


class ApprovalRule(Settings):
    """Calls that match all of its parts may be made, may not, or need somebody's approval."""

    action: str = "ask"
    """`allow`, `ask` or `deny`."""
    tool: str = "*"
    """A pattern of tool names."""
    toolset: str = "*"
    """A pattern of MCP server names, and of the names of tool files without their ending."""
    source: str = "*"
    """A pattern of the paths of files, and of `MCP server NAME`."""
    annotations: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """What the tool says of itself: `{ destructiveHint = true }`."""
    arguments: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """Values by the name of an argument. A text is a pattern: `{ path = "/etc/*" }`."""


class ApprovalSettings(Settings):
    """Which calls may be made without asking."""

    default: str = "destructive"
    """For calls that no rule is about: `allow`, `ask`, `deny`, or `destructive`: ask for tools that say themselves that
    they destroy something (`destructiveHint`), if a model calls them."""
    rules: tuple[ApprovalRule, ...] = ()
    """The first one that matches decides."""
    expires: float = 600.0
    """Seconds in which a request can be answered, and an answer be used."""


class WorkerSettings(Settings):
    """The processes of script tools. They cap what a script asks for in its metadata."""

    max_workers: int = 4
    """Processes per script."""
    max_concurrency: int = 32
    """Calls that one process runs at the same time, if its script declares that it can."""
    idle_timeout: float = 600.0
    """Seconds without a call after which a process ends."""
    start_timeout: float = 60.0
    """Seconds from the start of a process until it is ready; the time to make its environment does not count."""
    max_calls: int | None = None
    """Calls after which a process is replaced."""
    max_age: float | None = None
    """Seconds after which a process is replaced, between two calls."""
    max_memory_mb: int | None = None
    """Megabytes that a process may use. It cannot allocate more, and is replaced when it comes close."""
    max_timeout: float = 600.0
    """The longest deadline that a script may declare for itself."""
    grace: float = 2.0
    """Seconds that a process gets to exit by itself."""
    variables: tuple[str, ...] = ()
    """Environment variables to pass on, besides PATH, HOME and the locale."""
    cache: str = ""
    """The directory for the environments and descriptions of scripts, relative to the configuration file. Empty: the
    cache directory of the platform."""
    allow_build: bool = False
    """Allow packages to run build scripts while an environment is made."""
    sandbox: str = "standard"
    """What scripts may do: `standard`, `strict` or `off`."""
    sandbox_required: str = "none"
    """The least enforcement to run a script with: `namespaces`, `bubblewrap`, `landlock` or `none`."""
    engine: str = "local"
    """Where the processes run: `local`, on this machine, or `ray`, on the nodes of a Ray cluster."""
    address: str = ""
    """The head of the cluster, as `10.0.0.1:6379`. Empty: the variable RAY_ADDRESS says it."""
    lease: float = 3.0
    """Seconds after which a process on a node is killed, if nothing is heard of this program."""
    allow_cluster_without_token: bool = False
    """Use a cluster that lets in whoever can reach it. Whoever is in can run anything on its nodes."""


class McpSettings(Settings):
    """Settings that hold for all MCP servers."""

    delays: tuple[float, ...] = (0.0, 2.0, 4.0)
    """Seconds before each attempt to connect at program start. There are as many attempts as delays."""
    longest_delay: float = 60.0
    """After those attempts, each delay is twice the last one, up to so many seconds."""
    start_timeout: float = 30.0
    """Seconds that one attempt may take, until the server has listed its tools."""
    discover_timeout: float = 0.5
    """Seconds that a server over HTTP of unknown era is asked for the newer one alone (`server/discover`). Then it gets
    the handshake of the older one as well."""
    grace: float = 5.0
    """Seconds that a stdio server has to send anything after a call was abandoned; otherwise it is restarted."""
    max_message_mb: int = 16
    """Megabytes of one message. A longer one is dropped, and the call that it answers fails."""
    files: tuple[str, ...] = ()
    """Files of other programs that define servers (`.mcp.json`), relative to the configuration file."""


class ServerSettings(Settings):
    """One MCP server: the command that starts it, or its URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """Environment variables, besides PATH, HOME, USER, LOGNAME, SHELL, TERM and the locale."""
    cwd: str = ""
    """Its working directory, relative to the configuration file."""
    url: str = ""
    transport: str = ""
    """`stdio`, `http` or `sse`. Empty: stdio for a command, http for a URL."""
    headers: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """HTTP headers of every request."""
    enabled: bool = True
    include: tuple[str, ...] = ()
    """Patterns of the tools to use; empty for all."""
    exclude: tuple[str, ...] = ()
    """Patterns of the tools to leave out."""
    timeout: float | None = None
    """Seconds that a call of its tools may take, unless [tool.NAME] sets another limit."""
    start_timeout: float | None = None
    """Seconds that one attempt to connect may take; `None` for the value of [mcp]."""
    hint: str = ""
    """Advice for the case that it cannot be reached, such as "Is the MQTT broker running?"."""
    sandbox: str = ""
    """The sandbox of a stdio server: `standard`, `strict` or `off`. Empty: `standard` if it has permissions."""
    permissions: Permissions | None = None
    """What a stdio server may do, besides what its sandbox allows."""
    parameters: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    """Parameter names that models tend to use, and the server's names for them: `{ command = "action" }`."""


class ServeSettings(Settings):
    """`toolrun serve`: what it says about itself to MCP clients, and what it takes from them."""

    name: str = "toolrun"
    """The name of the server."""
    version: str = ""
    """Its version; empty for the version of toolrun."""
    instructions: str = ""
    """What a client should tell its model about these tools; empty for nothing."""
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the server over HTTP, such as `https://app.example`."""
    key_fields: tuple[str, ...] = ("toolrun/idempotencyKey", "idempotencyKey", "idempotency-key")
    """Fields in the `_meta` of a call that give it a key, under which it is made once."""
    max_result_mb: int = 32
    """Megabytes of one answer. A larger one is answered with an error that says so."""
    max_connections: int = 512
    """HTTP connections, at most half of the files that the process may open. The one that waits longest makes room."""
    max_head_kb: int = 64
    """Kilobytes of the head of an HTTP request."""
    head_timeout: float = 10.0
    """Seconds that a client has to send the head of a request."""
    body_timeout: float = 20.0
    """Seconds that a client has to send the body, and one more for each 32 kB of it."""
    idle_timeout: float = 30.0
    """Seconds that a connection without a request is kept, and that a client may leave an answer unread."""


class ModelSettings(Settings):
    """The model of `toolrun ask`, `chat` and `voice`, and its limits in one turn."""

    use: str = ""
    """`anthropic:MODEL`, `openai:MODEL`, `google:MODEL`, `ollama:MODEL`, `local:FILE.gguf` or `scripted:FILE`. Empty:
    the first that is available."""
    base_url: str = ""
    """The URL of the provider; empty for its default."""
    api_key: str = field(default="", repr=False)
    """Empty: the provider's package reads its own variable, such as ANTHROPIC_API_KEY."""
    system: str = ""
    """The system prompt."""
    rounds: int = 10
    """How often the model may ask for tools in one turn."""
    calls: int = 100
    """Calls in all rounds of a turn."""
    time: float = 600.0
    """Seconds for all rounds of a turn."""
    answer_time: float = 300.0
    """Seconds for one answer of the model."""
    wording: str = ""
    """A file with the messages that the model gets at these limits, relative to the configuration file."""


class VoiceSettings(Settings):
    """The voice gateway: its input, its memory and its speech."""

    mode: str = "queue"
    """`queue`: one utterance after the other. `barge_in`: a new utterance interrupts the current one."""
    queue: int = 8
    """Utterances that may wait; further ones are refused."""
    memory: float = 300.0
    """Seconds from an answer until the conversation is forgotten."""
    mqtt: str = field(default="", repr=False)
    """The broker: `mqtt://user:password@host:1883`, or `mqtts://` for TLS. Empty: none."""
    prefix: str = "voice"
    """The prefix of all topics."""
    delays: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0)
    """Seconds before each further attempt to reach the broker; the last is repeated."""
    phrases: str = ""
    """A file with the phrases for failures, relative to the configuration file."""
    speech_in: str = "sphinx"
    """The recogniser: `sphinx` (a grammar of commands) or `whisper` (free speech)."""
    speech_model: str = "base.en"
    """The model of `whisper`: a name, or a directory."""
    speech_out: str = ""
    """The synthesiser: `espeak` or `piper`. Empty: silence."""
    speech_voice: str = ""
    """The voice of `espeak` (a name), or of `piper` (a file, relative to the configuration file)."""
    devices: tuple[str, ...] = ()
    """Device names for the grammar of `sphinx`."""
    commands: str = ""
    """A file with phrases for the grammar of `sphinx`, relative to the configuration file."""


class JournalSettings(Settings):
    """The record of calls."""

    enabled: bool = True
    path: str = ".toolrun/journal.db"
    """The file, relative to the configuration file."""
    durability: str = "process"
    """`process`: what is recorded survives `kill -9`. `power`: it survives a power failure, and calls wait longer."""
    required: bool = False
    """Refuse calls that may act while the journal cannot be written, instead of running them unrecorded."""
    days: int = 30
    """Calls older than that are forgotten, apart from the newest 10,000 and from doubts that nobody has settled."""
    max_mb: int = 500
    """The oldest calls are forgotten when the file gets larger."""
    answers: str = "plain"
    """Which answers are kept for whoever repeats a key: `plain` ones, in which nothing is hidden, `all`, or `none`."""
    max_chars: int = 16_384
    """The longest arguments and results that are kept whole."""
    conversations: bool = True
    """Keep the messages of conversations, so that they can be continued."""


class TrustSettings(Settings):
    """What the tools of MCP servers may say of themselves."""

    on_change: str = "ask"
    """What becomes of a tool whose definition has changed: `ask`, `warn` or `refuse`."""
    max_description: int = 10_000
    """Characters of a tool's description that a model gets. The texts of its schema may have ten times as many."""


class LogSettings(Settings):
    """The log on stderr."""

    level: str = "warning"
    format: str = "text"


class TelemetrySettings(Settings):
    """OpenTelemetry."""

    enabled: bool = False
    """Trace and measure all calls. Where to is in the `OTEL_…` environment variables."""
    content: bool = False
    """Put arguments, results and error messages into the traces, without secrets."""


class Config(Settings):
    """A complete, checked configuration."""

    path: Path | None
    """The configuration file, if there is one."""
    root: Path
    """The directory that relative paths refer to."""
    timeout: float = 30.0
    """Seconds that a call may take, unless its tool has another limit."""
    limits: Limits = field(default_factory=Limits)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The variables of that file that were not set."""
    files: FileSettings = field(default_factory=FileSettings)
    tool: Mapping[str, ToolSettings] = field(default_factory=lambda: MappingProxyType({}))
    """Settings by tool name; tools without settings are absent."""
    secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    secret_files: tuple[Path, ...] = ()
    """The files that secrets are read from. Scripts do not see them."""
    missing_secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Secrets that could not be read, with the reason. Only tools with a grant for one are affected."""
    log: LogSettings = field(default_factory=LogSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)
    trust: TrustSettings = field(default_factory=TrustSettings)
    workers: WorkerSettings = field(default_factory=WorkerSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    servers: Mapping[str, ServerSettings] = field(default_factory=lambda: MappingProxyType({}))
    """MCP servers by name."""
    missing_servers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """MCP servers that need a variable that is not set, or have no settings, with the reason. The others work."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    voice: VoiceSettings = field(default_factory=VoiceSettings)
    is_found: bool = False
    """Whether toolrun found the file or the directory by itself. Then the files with tools must be the user's own."""

    @property
    def journal_file(self) -> Path:
        """Where the journal is, or would be."""
        return self.root / os.path.expanduser(self.journal.path)  # noqa: PTH111  `Path` raises if there is no home
