"""How a configuration is found and read, and what is refused in it."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from toolrun.config.load import find_config, load_config
from toolrun.config.model import Config, FileSettings, Limits, LogSettings, Permissions, ToolSettings
from toolrun.config.section import SECTIONS
from toolrun.errors import ConfigError
from toolrun.json import JSON

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "config.md"

Load = Callable[..., Config]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "toolrun.toml"


@pytest.fixture
def load(file: Path) -> Load:
    def load(text: str, environ: Mapping[str, str] = {}, overrides: Mapping[str, JSON] = {}) -> Config:
        file.write_text(text, encoding="utf-8")
        return load_config(file, environ=environ, overrides=overrides)

    return load


def refusal(load: Load, text: str, *args: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, *args)
    return str(caught.value)


def test_without_a_file_everything_has_its_default() -> None:
    config = load_config(None, environ={})
    assert config == Config(path=None, root=Path.cwd())
    assert (config.timeout, config.limits, config.files, config.log) == (30.0, Limits(), FileSettings(), LogSettings())
    assert (dict(config.tool), dict(config.secrets), dict(config.missing_secrets)) == ({}, {}, {})


def test_an_empty_file_changes_nothing_but_the_root(load: Load, file: Path) -> None:
    assert load("") == Config(path=file, root=file.parent)


def test_a_relative_path_is_made_absolute(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.touch()
    monkeypatch.chdir(file.parent)
    config = load_config(Path("toolrun.toml"), environ={})
    assert (config.path, config.root) == (file, file.parent)


def test_the_nearest_file_above_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / "toolrun.toml").touch()
    assert find_config(deep) == tmp_path / "toolrun.toml"
    (tmp_path / "a" / "toolrun.toml").touch()
    assert find_config(deep) == tmp_path / "a" / "toolrun.toml"
    assert find_config(deep / ".." / "..") == tmp_path / "a" / "toolrun.toml"
    (deep / "toolrun.toml").mkdir()
    assert find_config(deep) == tmp_path / "a" / "toolrun.toml"


def test_no_file_is_found_where_there_is_none(tmp_path: Path) -> None:
    found = find_config(tmp_path)
    assert found is None or tmp_path not in found.parents


def test_every_key_of_the_file_arrives(load: Load) -> None:
    config = load(
        """
        [executor]
        timeout = 5
        max_concurrency = 1
        max_queue = 0
        max_abandoned = 3
        max_result_chars = 4
        slow_call = 0.5
        strict = true
        [tools]
        python = ["a/**/*.py"]
        catalogs = []
        [tool.search]
        enabled = false
        timeout = 2
        concurrency = 7
        secrets = ["KEY"]
        config = { url = "http://x", deep = { list = [1, { day = 2024-05-01 }] } }
        [tool."home.lights"]
        concurrency = 1
        [secrets]
        KEY = "value"
        [log]
        level = "DEBUG"
        format = "json"
        """
    )
    assert config.timeout == 5.0
    assert isinstance(config.timeout, float)
    assert config.limits == Limits(1, 0, 3, 4, 0.5, True)
    assert config.files == FileSettings(python=("a/**/*.py",), catalogs=())
    assert config.log == LogSettings(level="debug", format="json")
    assert config.tool == {
        "search": ToolSettings(
            enabled=False,
            timeout=2.0,
            concurrency=7,
            secrets=("KEY",),
            config={"url": "http://x", "deep": {"list": [1, {"day": "2024-05-01"}]}},
        ),
        "home.lights": ToolSettings(concurrency=1),
    }


def test_a_config_cannot_be_changed(load: Load) -> None:
    config = load("[tool.a]\ntimeout = 1\n[secrets]\nA = 'x'")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.timeout = 1.0  # type: ignore[misc]
    for mapping in (config.tool, config.secrets, config.missing_secrets):
        with pytest.raises(TypeError):
            mapping["b"] = "x"  # type: ignore[index]


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ('[{action = "allow"}, {action = "ask", toool = "x"}]', 'got rule 2: toool = "x" in '),
        ('[{action = "maybe"}]', 'got rule 1: action = "maybe" in '),
        ('[{tool = "x"}]', "got rule 1 has no action in "),
        ('["x"]', "got rule 1 is not a table in "),
        ('[{action = "deny", arguments = "x"}]', 'got rule 1: arguments = "x" in '),
        ('"x"', 'got "x" in '),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_by_its_number(load: Load, rules: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(f"[approval]\nrules = {rules}")
    assert wrong in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[executor]\ntimeout = "soon"', '[executor] timeout must be a number of seconds > 0, got "soon"'),
        ("[executor]\ntimeout = 0", "[executor] timeout must be a number of seconds > 0, got 0"),
        ("[executor]\ntimeout = -1.5", "[executor] timeout must be a number of seconds > 0, got -1.5"),
        ("[executor]\ntimeout = inf", "[executor] timeout must be a number of seconds > 0, got Infinity"),
        ("[executor]\ntimeout = nan", "[executor] timeout must be a number of seconds > 0, got NaN"),
        ("[executor]\ntimeout = true", "[executor] timeout must be a number of seconds > 0, got true"),
        (
            "[executor]\nslow_call = 2024-05-01",
            '[executor] slow_call must be a number of seconds > 0, got "2024-05-01"',
        ),
        ("[executor]\nmax_concurrency = 0", "[executor] max_concurrency must be a whole number >= 1, got 0"),
        ("[executor]\nmax_concurrency = 2.0", "[executor] max_concurrency must be a whole number >= 1, got 2.0"),
        ("[executor]\nmax_concurrency = true", "[executor] max_concurrency must be a whole number >= 1, got true"),
        ("[executor]\nmax_queue = -1", "[executor] max_queue must be a whole number >= 0, got -1"),
        ("[executor]\nstrict = 1", "[executor] strict must be true or false, got 1"),
        (
            "[tools]\npython = 'a.py'",
            '[tools] python must be a list of glob patterns relative to the configuration file, got "a.py"',
        ),
        (
            "[tools]\npython = ['/a.py']",
            '[tools] python must be a list of glob patterns relative to the configuration file, got ["/a.py"]',
        ),
        ("[tool.x]\nsecrets = [1]", "[tool.x] secrets must be a list of strings, got [1]"),
        ("[tool.x]\nconcurrency = 0", "[tool.x] concurrency must be a whole number >= 1, got 0"),
        ("[tool.'a.b']\nenabled = 'no'", '[tool."a.b"] enabled must be true or false, got "no"'),
        ("[tool.x]\nconfig = 5", "[tool.x] config must be a table that JSON can hold (no nan, no inf), got 5"),
        (
            "[tool.x.config]\na = nan",
            '[tool.x] config must be a table that JSON can hold (no nan, no inf), got {"a": NaN}',
        ),
        ("[log]\nlevel = 'loud'", '[log] level must be one of "debug", "info", "warning", "error", got "loud"'),
        (
            "[tool.pay]\neffects = 'twice'",
            '[tool.pay] effects must be one of "none", "idempotent", "keyed", "once", got "twice"',
        ),
        ("[log]\nformat = 1", '[log] format must be one of "text", "json", got 1'),
        ("executor = 5", "[executor] must be a table, got 5"),
        ("[[executor]]", "[executor] must be a table, got [{}]"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected_and_what_came(
    load: Load, file: Path, text: str, message: str
) -> None:
    assert refusal(load, text) == f"{message} in {file}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[executor]\ntimout = 5", "unknown key 'timout' in [executor] of {file}; did you mean 'timeout'?"),
        ("[log]\nxyz = 5", "unknown key 'xyz' in [log] of {file}; known are format, level"),
        ("[exectuor]\ntimeout = 5", "unknown section 'exectuor' in {file}; did you mean 'executor'?"),
        ("[secret]\nA = 'x'", "unknown section 'secret' in {file}; did you mean 'secrets'?"),
        ("timeout = 5", "unknown key 'timeout' at the top of {file}; it belongs in [executor]"),
        ("[tool.a]\ntimeot = 5", "unknown key 'timeot' in [tool.a] of {file}; did you mean 'timeout'?"),
        (
            "[tool.home.lights]\ntimeout = 5",
            "unknown key 'lights' in [tool.home] of {file}; a name with a dot needs quotes: [tool.\"home.lights\"]",
        ),
        ("[tool]\ntimeout = 5", "[tool.timeout] must be a table, got 5 in {file}; settings go below a [tool.NAME]"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(load: Load, file: Path, text: str, message: str) -> None:
    assert refusal(load, text) == message.format(file=file)


def test_all_problems_are_reported_at_once(load: Load, file: Path) -> None:
    text = "[executor]\ntimout = 5\ntimeout = 'soon'\n[lgo]\n[tool.a]\nconfig = { u = '${NOWHERE}' }\nsecrets = ['K']"
    assert refusal(load, text, {"TOOLRUN_LOG_LEVEL": "loud"}, {"log.formt": "json"}).splitlines() == [
        "the configuration has 7 problems:",
        f"- unknown key 'timout' in [executor] of {file}; did you mean 'timeout'?",
        f'- [executor] timeout must be a number of seconds > 0, got "soon" in {file}',
        f"- unknown section 'lgo' in {file}; did you mean 'log'?",
        f"- [tool.a] config.u of {file} needs the variable NOWHERE, which is not set; "
        "set it, or write ${NOWHERE:-default}",
        '- the variable TOOLRUN_LOG_LEVEL must be one of "debug", "info", "warning", "error", got "loud"',
        "- unknown option 'log.formt'; did you mean 'log.format'?",
        f"- [tool.a] secrets names 'K', which is not in [secrets] of {file}; none are known",
    ]


def test_a_syntax_error_names_file_line_and_column(load: Load, file: Path) -> None:
    assert refusal(load, "[executor]\ntimeout = = 5\n").startswith(f"{file}: line 2, column 11: ")
    assert refusal(load, "[executor]\ntimeout =").startswith(f"{file}: line 2, column 10: ")


def test_a_pipe_of_that_name_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "toolrun.toml")
    found = find_config(tmp_path, environ={})
    with pytest.raises(ConfigError, match=r"/toolrun\.toml: is a named pipe"):
        load_config(found, environ={}, is_found=True)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/missing\.toml: there is no such file"):
        load_config(tmp_path / "missing.toml", environ={})
    with pytest.raises(ConfigError, match=f"^{re.escape(str(tmp_path))}: is a directory"):
        load_config(tmp_path, environ={})
    (tmp_path / "latin.toml").write_bytes(b"[log] # \xfc")
    with pytest.raises(ConfigError, match=r"/latin\.toml: is not UTF-8 text"):
        load_config(tmp_path / "latin.toml", environ={})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named_with_the_reason(load: Load, file: Path) -> None:
    file.touch(mode=0o000)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load_config(file, environ={})


def test_defaults_give_way_to_the_file_then_to_the_environment_then_to_overrides(load: Load) -> None:
    text, environ, overrides = "[executor]\ntimeout = 1", {"TOOLRUN_EXECUTOR_TIMEOUT": "2"}, {"executor.timeout": 3}
    assert load("").timeout == 30.0
    assert load(text).timeout == 1.0
    assert load(text, environ).timeout == 2.0
    assert load(text, environ, overrides).timeout == 3.0


def test_a_layer_replaces_single_keys_and_not_whole_sections(load: Load) -> None:
    text = "[log]\nlevel = 'error'\nformat = 'json'\n[tool.a]\ntimeout = 1\nconcurrency = 2"
    config = load(text, {"TOOLRUN_LOG_LEVEL": "info"}, {"tool.a.timeout": 9})
    assert config.log == LogSettings(level="info", format="json")
    assert config.tool == {"a": ToolSettings(timeout=9.0, concurrency=2)}


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        ("TOOLRUN_EXECUTOR_TIMEOUT", "2.5", lambda config: config.timeout == 2.5),
        ("TOOLRUN_EXECUTOR_MAX_QUEUE", "0", lambda config: config.limits.max_queue == 0),
        ("TOOLRUN_EXECUTOR_SLOW_CALL", "3", lambda config: config.limits.slow_call == 3.0),
        ("TOOLRUN_EXECUTOR_STRICT", "True", lambda config: config.limits.strict is True),
        ("TOOLRUN_EXECUTOR_STRICT", "0", lambda config: config.limits.strict is False),
        ("TOOLRUN_LOG_LEVEL", "DEBUG", lambda config: config.log.level == "debug"),
        ("TOOLRUN_LOG_FORMAT", "json", lambda config: config.log.format == "json"),
    ],
)
def test_a_variable_is_read_as_the_type_of_its_key(
    load: Load, variable: str, text: str, read: Callable[[Config], bool]
) -> None:
    assert read(load("[executor]\nstrict = true", {variable: text}))


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TOOLRUN_EXECUTOR_TIMEOUT", "soon", 'a number of seconds > 0, got "soon"'),
        ("TOOLRUN_EXECUTOR_TIMEOUT", "nan", 'a number of seconds > 0, got "nan"'),
        ("TOOLRUN_EXECUTOR_TIMEOUT", "-1", 'a number of seconds > 0, got "-1"'),
        ("TOOLRUN_EXECUTOR_MAX_CONCURRENCY", "2.5", 'a whole number >= 1, got "2.5"'),
        ("TOOLRUN_EXECUTOR_STRICT", "maybe", 'true or false, got "maybe"'),
    ],
)
def test_a_wrong_value_in_a_variable_names_the_variable(load: Load, variable: str, text: str, message: str) -> None:
    assert refusal(load, "", {variable: text}) == f"the variable {variable} must be {message}"


def test_other_variables_and_empty_ones_are_left_alone(load: Load, file: Path) -> None:
    environ = {
        "TOOLRUN_CONFIG": "x",
        "TOOLRUN_EXECUTOR": "x",
        "TOOLRUN_TOOLS_PYTHON": "x",
        "TOOLRUN_TOOL_TIMEOUT": "x",
        "TOOLRUN_LOG_LEVEL": "",
        "toolrun_log_level": "x",
    }
    assert load("", environ) == Config(path=file, root=file.parent)


def test_an_override_that_is_none_was_not_given(load: Load) -> None:
    assert load("[executor]\ntimeout = 7", {}, {"executor.timeout": None}).timeout == 7.0


def test_overrides_reach_lists_and_tools_whose_names_have_dots(load: Load) -> None:
    config = load("", {}, {"tools.python": ["x.py"], "tool.home.lights.enabled": False})
    assert config.files.python == ("x.py",)
    assert config.tool == {"home.lights": ToolSettings(enabled=False)}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"executor.timeout": "5"}, 'the option executor.timeout must be a number of seconds > 0, got "5"'),
        ({"executor.timout": 5}, "unknown option 'executor.timout'; did you mean 'executor.timeout'?"),
        ({"executor.x.timeout": 5}, "unknown option 'executor.x.timeout'; did you mean 'executor.timeout'"),
        ({"tool.timeout": 5}, "unknown option 'tool.timeout'; did you mean 'tool.NAME.timeout'"),
        ({"timeout": 5}, "unknown option 'timeout'; "),
        ({"secrets.A": "x"}, "unknown option 'secrets.A'; "),
    ],
)
def test_a_wrong_override_is_named(load: Load, override: Mapping[str, JSON], message: str) -> None:
    assert refusal(load, "", {}, override).startswith(message)


def test_variables_are_replaced_in_values_at_any_depth_and_not_in_keys(load: Load) -> None:
    text = """
    [tool.a.config]
    "${CITY}" = "${CITY}"
    list = ["${CITY}", { deep = "${UNSET:-x}" }]
    literal = "$${CITY}"
    [log]
    level = "${LEVEL}"
    [tools]
    python = ["${CITY}/*.py"]
    """
    config = load(text, {"CITY": "Köln", "LEVEL": "info"})
    assert config.tool["a"].config == {"${CITY}": "Köln", "list": ["Köln", {"deep": "x"}], "literal": "${CITY}"}
    assert config.log.level == "info"
    assert config.files.python == ("Köln/*.py",)


def test_a_variable_that_is_not_set_names_file_key_and_variable(load: Load, file: Path) -> None:
    assert refusal(load, "[tool.'a.b'.config]\nx = [{ y = '${NOWHERE}' }]") == (
        f'[tool."a.b"] config.x[0].y of {file} needs the variable NOWHERE, which is not set; '
        "set it, or write ${NOWHERE:-default}"
    )


def test_a_wrong_value_is_shown_as_it_was_written_and_not_expanded(load: Load) -> None:
    message = refusal(load, "[tool.a]\nsecrets = '${TOKEN}'", {"TOKEN": "hunter2"})
    assert 'got "${TOKEN}"' in message
    assert "hunter2" not in message


def test_secrets_come_from_variables_files_and_text(load: Load, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_bytes(b"from\r\nfile\n\n")
    (tmp_path / "windows").write_bytes(b"from windows\r\n")
    text = f"""
    [secrets]
    A = {{ env = "VARIABLE" }}
    B = {{ file = "secrets/token" }}
    C = {{ file = "{tmp_path}/windows" }}
    D = "user:${{VARIABLE}}"
    E = {{ file = "${{FOLDER}}/token" }}
    """
    config = load(text, {"VARIABLE": "from variable", "FOLDER": "secrets"})
    assert config.secrets == {
        "A": "from variable",
        "B": "from\r\nfile\n",
        "C": "from windows",
        "D": "user:from variable",
        "E": "from\r\nfile\n",
    }
    assert not config.missing_secrets


def test_a_secret_that_cannot_be_resolved_is_missing_with_its_reason_and_stops_nothing(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    text = """
    [secrets]
    A = { env = "NOWHERE" }
    B = { env = "EMPTY" }
    C = { file = "nothing" }
    D = { file = "empty" }
    E = "x${NOWHERE}"
    F = ""
    G = { file = "." }
    H = "here"
    [tool.a]
    secrets = ["A", "H"]
    """
    config = load(text, {"EMPTY": ""})
    assert config.secrets == {"H": "here"}
    assert config.tool["a"].secrets == ("A", "H")
    assert config.missing_secrets == {
        "A": "the variable NOWHERE is not set",
        "B": "the variable EMPTY is empty",
        "C": f"{tmp_path}/nothing: there is no such file; check the path",
        "D": f"{tmp_path}/empty: is empty",
        "E": "it needs the variable NOWHERE, which is not set; set it, or write ${NOWHERE:-default}",
        "F": "it is empty",
        "G": f"{tmp_path}: is a directory; name a file in it",
    }


@pytest.mark.parametrize(
    "entry",
    [
        "5",
        "['hunter2']",
        "{}",
        "{ evn = 'hunter2' }",
        "{ env = 5 }",
        "{ env = 'A', file = 'hunter2' }",
        "{ text = 'hunter2' }",
    ],
)
def test_a_secret_of_another_form_is_refused_without_showing_it(load: Load, file: Path, entry: str) -> None:
    message = f'[secrets] A must be a string, {{ env = "VARIABLE" }} or {{ file = "path" }} in {file}'
    assert refusal(load, f"[secrets]\nA = {entry}\n[tool.x]\nsecrets = ['A']") == message


def test_secrets_that_are_no_table_are_refused_without_showing_them(load: Load, file: Path) -> None:
    assert refusal(load, "secrets = 'hunter2'") == f"[secrets] must be a table of names in {file}"


def test_a_granted_secret_that_does_not_exist_is_refused_with_a_suggestion(load: Load, file: Path) -> None:
    message = refusal(load, "[secrets]\nAPI_KEY = 'x'\n[tool.search]\nsecrets = ['API_KYE']")
    assert message == (
        f"[tool.search] secrets names 'API_KYE', which is not in [secrets] of {file}; did you mean 'API_KEY'?"
    )


def test_secrets_do_not_show_in_a_repr(load: Load) -> None:
    config = load("[secrets]\nA = 'hunter2'\nB = { env = 'HUNTER' }\nC = 'half${'", {"HUNTER": "hunter2"})
    assert "hunter2" not in repr(config)
    assert "half" not in repr(config)


def test_a_server_that_lacks_a_variable_is_left_out_and_the_others_are_not(load: Load) -> None:
    text = """
    [servers.good]
    command = "x"
    [servers.bad]
    url = "https://x.example"
    headers = { Authorization = "Bearer ${TOKEN}", Other = "${ALSO}" }
    """
    config = load(text)
    assert list(config.servers) == ["good"]
    assert config.missing_servers == {
        "bad": "[servers.bad] headers.Authorization needs the variable TOKEN, which is not set; "
        "set it, or write ${TOKEN:-default}"
    }
    assert list(load(text, {"TOKEN": "t", "ALSO": "a"}).servers) == ["good", "bad"]


def test_the_example_of_the_page_loads_and_sets_every_key(load: Load) -> None:
    page = PAGE.read_text(encoding="utf-8")
    [example] = re.findall(r"^## A complete example\n\n```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    config = load(example, {"OPENWEATHER_KEY": "x", "DB_PASSWORD": "y"})
    assert config.timeout == 20.0
    assert config.tool["weather"].config == {"city": "Berlin", "units": "metric"}
    assert config.missing_secrets.keys() == {"MQTT_PASSWORD"}
    written = tomllib.loads(example)
    named = {title: written.pop(title).values() for title, section in SECTIONS.items() if section.named}
    assert {title: set(table) for title, table in written.items() if title != "secrets"} == {
        title: set(section.keys) for title, section in SECTIONS.items() if not section.named
    }
    for title, tables in named.items():
        assert {key for table in tables for key in table} == set(SECTIONS[title].keys)


@pytest.mark.parametrize("title", SECTIONS)
def test_the_page_has_every_key_of_a_section_with_its_default(title: str) -> None:
    section = SECTIONS[title]
    heading = f"## [{title}.NAME]" if section.named else f"## [{title}]"
    part = PAGE.read_text(encoding="utf-8").split(f"{heading}\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| `?(.*?)`? \|", part, re.MULTILINE))
    filled = section.shape()
    defaults = {field.name: getattr(filled, field.name) for field in dataclasses.fields(filled)}
    defaults |= {key: getattr(Config(None, Path()), key) for key in section.own}
    assert rows.keys() == defaults.keys()
    for key, default in defaults.items():
        default = {} if default == Permissions() else default
        shown = None if rows[key] == "none" else tomllib.loads(f"x = {rows[key]}")["x"]
        assert shown == (list(default) if isinstance(default, tuple) else default), key


def test_the_page_names_every_field_of_the_config() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field in dataclasses.fields(Config):
        assert f"`{field.name}`" in page


def test_the_table_of_sections_fills_fields_that_exist() -> None:
    names = {field.name for field in dataclasses.fields(Config)}
    for section in SECTIONS.values():
        assert {section.field, *section.own} <= names


def test_it_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; import toolrun.config.load; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'yaml', 'orjson', 'pydantic', 'click'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == ""


def test_the_file_that_environment_names_gives_variables_that_are_not_set(load: Load, file: Path) -> None:
    file.with_name(".env").write_text(
        'export KEY=of-the-file  # a comment\nHOST="a b"\nTOOLRUN_LOG_LEVEL=info\nEMPTY=\n'
    )
    text = '[environment]\nfile = ".env"\n[secrets]\nS = { env = "KEY" }\n[model]\nsystem = "${HOST}"\n'
    config = load(text, {"HOST": "of the environment"})
    assert (config.secrets["S"], config.model.system, config.log.level) == ("of-the-file", "of the environment", "info")
    assert config.variables == {"KEY": "of-the-file", "TOOLRUN_LOG_LEVEL": "info", "EMPTY": ""}
    assert config.secret_files == (file.with_name(".env"),)
    assert "of-the-file" not in repr(config)


def test_no_such_file_is_read_unless_the_configuration_names_one(load: Load, file: Path) -> None:
    file.with_name(".env").write_text("TOOLRUN_LOG_LEVEL=info\n")
    assert load("").log.level == "warning"
    assert load("", {"TOOLRUN_ENVIRONMENT_FILE": ".env"}).log.level == "info"


def test_a_file_with_variables_may_be_missing(load: Load) -> None:
    assert load('[environment]\nfile = ".env"\n').variables == {}


def test_a_line_that_is_no_variable_is_named_and_not_shown(load: Load, file: Path) -> None:
    file.with_name(".env").write_text("KEY=value\nthis is confidential\n")
    assert refusal(load, '[environment]\nfile = ".env"\n') == (
        f"{file.with_name('.env')}: line 2 is not of the form NAME=VALUE"
    )


def test_a_file_with_variables_that_others_may_write_to_is_refused_if_toolrun_found_it(file: Path) -> None:
    file.write_text('[environment]\nfile = ".env"\n')
    variables = file.with_name(".env")
    variables.write_text("KEY=value\n")
    variables.chmod(0o666)
    with pytest.raises(ConfigError, match=r"\.env is not loaded: everybody may write to it"):
        load_config(file, environ={}, is_found=True)
    assert load_config(file, environ={}).variables == {"KEY": "value"}
