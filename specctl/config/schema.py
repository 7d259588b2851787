"""Every key of an inventory, as data: the validator and the test of hosts/example.yaml are made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specctl.config.kinds import (
    Arguments,
    Choice,
    Field,
    Flag,
    Gpus,
    Hops,
    Kind,
    Named,
    OneOrMany,
    Seconds,
    Secret,
    Several,
    Table,
    Text,
    Whole,
)
from specctl.config.model import EnvironmentKind, HostKeys, Supervisor, Target

_PORT = Whole(1, 65535, "port")
_NAME = r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_HOST = r"(?!.*\.\.)[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_IPV6 = r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?"
_REMOTE = r"(?!.*/\.\.(/|$))/[A-Za-z0-9._+@=,-]+(/[A-Za-z0-9._+@=,-]+)*/?"

GROUP_NAME = Text("a group name", _NAME, "use letters, digits and . _ -")
HOST_NAME = Text(
    "a host name", _HOST, "use letters, digits and . _ -; the user and the port go under ssh:", ranges=True
)
MEMBERS = Text("a host name", _HOST, "name hosts as under hosts:", ranges=True)
ADDRESS = Text(
    "an address",
    rf"({_HOST}|{_IPV6})",
    "write a DNS name or an IP address alone; the user and the port go under ssh:",
    ranges=True,
)
SERVER_NAME = Text("a server name", _NAME, "use letters, digits and . _ -")
USER = Text("a user name", r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?", "write the login name alone")
LOCAL_PATH = Text("a path", r".*\S.*", "write a path on this machine; ~ and relative paths are allowed")
REMOTE_PATH = Text("a path on the host", _REMOTE, "write an absolute path without spaces or ..", longest=120)
PYTHON = Text("an interpreter", rf"(python[0-9.]*|{_REMOTE})", "write e.g. python3.12 or /usr/bin/python3.12")
VERSION = Text("a version", r"[0-9]+(\.[0-9]+)*([a-z]+[0-9]+|\.post[0-9]+)*", "write e.g. 0.5.9")
MODEL = Text(
    "a model",
    r"[^\s~.-](.*\S)?",
    "write an absolute path on the host, or a Hugging Face name such as org/model",
)
BIND = Text(
    "an address to listen on",
    r"([0-9.]+|[0-9A-Fa-f:.]+|localhost|[A-Za-z0-9.-]+)",
    "write e.g. 127.0.0.1 or 0.0.0.0",
)
VARIABLE = Text("an environment variable", r"[A-Za-z_][A-Za-z0-9_]*", "use letters, digits and _")
ENV_VALUE = Text("a value", r".*", "write one line of text", empty=True, hidden=True, longest=32_768)
SECRET_NAME = Text(
    "the name of a secret",
    r"([A-Za-z_][A-Za-z0-9_]*|--[a-z][a-z0-9-]*)",
    "write an environment variable, or an argument such as --api-key",
)

SECRET = Secret(
    {
        "env": Field(VARIABLE, "a variable in the environment of this specctl"),
        "file": Field(LOCAL_PATH, "a file on this machine"),
        "command": Field(
            Text("a command", r".*\S.*", "write a command line"),
            "a command on this machine that prints the secret",
        ),
    }
)

_LOGIN: Mapping[str, Field] = {
    "port": Field(_PORT, "the port of sshd; default: as ~/.ssh/config says, else 22"),
    "user": Field(USER, "login name; default: as ~/.ssh/config says, else yours"),
    "identity_file": Field(LOCAL_PATH, "private key on this machine"),
    "identities_only": Field(Flag(), "offer only that key, none of the agent's"),
    "known_hosts": Field(LOCAL_PATH, "file of host keys; default ~/.ssh/known_hosts"),
    "host_keys": Field(
        Choice(tuple(k.value for k in HostKeys)), "what to do with a host whose key is unknown"
    ),
    "connect_timeout": Field(Seconds(0.1, 600), "seconds to connect, each hop"),
}
HOP = Table(
    {"address": Field(ADDRESS, "DNS name, IP address, or a Host of ~/.ssh/config", required=True), **_LOGIN},
    renamed={"host": "address", "hostname": "address", "key": "identity_file"},
)
SSH = Table(
    {
        **_LOGIN,
        "jumps": Field(Hops(HOP), "hops on the way, in order; none: direct, whatever ~/.ssh/config says"),
        "command_timeout": Field(Seconds(1, 86_400), "seconds that one command may take"),
        "config_file": Field(LOCAL_PATH, "instead of ~/.ssh/config; none: read no such file"),
    },
    renamed={"key": "identity_file", "jump": "jumps", "proxy_jump": "jumps", "timeout": "connect_timeout"},
    elsewhere=dict.fromkeys(("address", "host", "hostname"), "write `address:` beside ssh:"),
)
THRESHOLD = Table(
    {
        "disable": Field(
            Whole(0, 1_000_000, "requests"), "speculation is off above this many; 0: always off"
        ),
        "resume": Field(Whole(0, 1_000_000, "requests"), "on again at or below this many"),
        "resume_steps": Field(Whole(1, 1_000_000, "decode steps"), "after this many steps in a row"),
        "draft_sync": Field(Choice(("lazy", "warm", "cold")), "what happens to the draft's KV while off"),
    }
)
TIMERS = Table(
    {
        "start": Field(Seconds(1, 86_400), "from the restart to healthy"),
        "hold": Field(Seconds(0, 86_400), "healthy without a restart for this long"),
        "stop": Field(Seconds(1, 86_400), "from SIGTERM to SIGKILL"),
    }
)
_SERVER: Mapping[str, Field] = {
    "model": Field(MODEL, "the target model: a path on the host or a Hugging Face name"),
    "port": Field(_PORT, "HTTP port"),
    "bind": Field(BIND, "address to listen on"),
    "gpus": Field(Gpus(), "GPU numbers that this server has for itself"),
    "args": Field(Arguments(), "further arguments of sglang.launch_server"),
    "env": Field(Named(VARIABLE, ENV_VALUE), "environment variables, no secrets"),
    "secrets": Field(Named(SECRET_NAME, SECRET), "variable or argument -> where its value is"),
    "threshold": Field(THRESHOLD, "when speculation is switched off and on"),
    "timers": Field(TIMERS, "how long to wait"),
}
_SERVER_RENAMED = {
    "model_path": "model",
    "host": "bind",
    "arguments": "args",
    "environment": "env",
    "gpu": "gpus",
    "timeouts": "timers",
}
SERVER_DEFAULTS = Table(
    _SERVER, renamed=_SERVER_RENAMED, elsewhere={"name": "each server under servers: has its name"}
)
SERVER = Table(
    {"name": Field(SERVER_NAME, "unique on its host", required=True), **_SERVER}, renamed=_SERVER_RENAMED
)
_HOST_FIELDS: Mapping[str, Field] = {
    "address": Field(ADDRESS, "where the host is; default: its name. {name} stands for the name"),
    "connection": Field(Choice(("ssh", "local")), "ssh, or local: this machine"),
    "ssh": Field(SSH, "how to log in"),
    "base": Field(VERSION, "the SGLang release"),
    "overlays": Field(
        OneOrMany(Text("an overlay", _NAME, "name a folder of overlays/")), "what is laid over it"
    ),
    "root": Field(REMOTE_PATH, "where releases live on the host"),
    "sudo": Field(
        Flag(("units",)),
        "true: run everything as root by `sudo -n`; units: systemctl alone",
    ),
    "supervisor": Field(Choice(tuple(s.value for s in Supervisor)), "what starts and restarts the servers"),
    "environment": Field(
        Choice(tuple(e.value for e in EnvironmentKind)), "a venv of its own, or one that serves already"
    ),
    "adopt": Field(REMOTE_PATH, "the environment to adopt: the folder that holds bin/python"),
    "python": Field(PYTHON, "the interpreter that the venv is made from"),
    "target": Field(Choice(tuple(t.value for t in Target)), "which lock of the base: CUDA, or the CPU build"),
    "wheelhouse": Field(LOCAL_PATH, "a folder of wheels on this machine, for hosts without internet"),
    "keep_releases": Field(Whole(1, 1000, "releases"), "complete releases to keep for rollback"),
    "server": Field(SERVER_DEFAULTS, "what all servers of the host inherit"),
    "servers": Field(Several(SERVER, fewest=1), "the servers of the host"),
}
_RENAMED = {"host": "address", "hostname": "address", "overlay": "overlays"}
_ELSEWHERE = {
    **dict.fromkeys(("user", "identity_file", "jumps", "known_hosts", "host_keys"), "put it under ssh:"),
    **dict.fromkeys(_SERVER, "put it under servers:, or under server: for all of them"),
}
DEFAULTS = Table(_HOST_FIELDS, renamed=_RENAMED, elsewhere=_ELSEWHERE)
HOST = Table(
    _HOST_FIELDS,
    renamed=_RENAMED,
    elsewhere={**_ELSEWHERE, "groups": "list the host at the top instead, under groups.NAME.hosts"},
)
GROUP = Table(
    {
        "hosts": Field(OneOrMany(MEMBERS), "names and ranges of its hosts"),
        "groups": Field(
            OneOrMany(Text("a group name", _NAME, "name a group")), "groups whose hosts belong to it too"
        ),
        **_HOST_FIELDS,
    },
    renamed=_RENAMED,
    elsewhere=_ELSEWHERE,
)
INVENTORY = Table(
    {
        "defaults": Field(DEFAULTS, "what all hosts of this file inherit"),
        "groups": Field(Named(GROUP_NAME, GROUP, empty_is_map=True), "named sets of hosts, with settings"),
        "hosts": Field(Named(HOST_NAME, HOST, empty_is_map=True), "the hosts, by name or range"),
    },
    renamed={"all": "defaults", "vars": "defaults"},
    elsewhere=dict.fromkeys(_HOST_FIELDS, "put it under defaults:"),
)


def keys(table: Table = INVENTORY, path: str = "") -> Iterator[tuple[str, Field]]:
    """Every key below a table as a path, e.g. hosts.*.ssh.jumps[].port, with its field."""
    for name, field in table.fields.items():
        here = f"{path}.{name}" if path else name
        yield here, field
        inner, suffix = _inside(field.kind)
        if isinstance(inner, (Table, Secret)):
            yield from keys(Table(inner.fields), here + suffix)


def _inside(kind: Kind) -> tuple[Kind, str]:
    """What a container holds at last, and how its path is written."""
    if isinstance(kind, (OneOrMany, Several)):
        inner, suffix = _inside(kind.item)
        return inner, "[]" + suffix
    if isinstance(kind, Named):
        inner, suffix = _inside(kind.value)
        return inner, ".*" + suffix
    if isinstance(kind, Hops):
        return kind.hop, "[]"
    return kind, ""
