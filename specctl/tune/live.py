"""A running server's switch: read it, change it. One round trip each, over loopback on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specctl.config.model import HostConfig, ServerConfig
from specctl.evidence.collect import api_key_sources
from specctl.evidence.expectation import launch_args, local_url
from specctl.host.protocol import Host
from specctl.host.shape import misfit
from specctl.tune.errors import NoSwitch, NotAnswering, ThresholdRefused
from specctl.tune.onhost import source
from specctl.tune.values import Values

ASK_S = 20.0
CHANGE_S = 60.0


@dataclass(frozen=True)
class Look:
    """One look at a server. `ranks`: one entry for each group of ranks that answers for itself."""

    at: float = 0.0  # seconds since the epoch, the host's clock
    error: str | None = None  # why there is nothing
    ranks: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)
    device: str | None = None
    graphs: bool | None = None  # whether the server was started with CUDA graphs

    @property
    def states(self) -> list[Mapping[str, Any]]:
        """`dynamic_speculation` of each rank group that has it."""
        return [rank["dynamic"] for rank in self.ranks if isinstance(rank.get("dynamic"), Mapping)]

    @property
    def state(self) -> Mapping[str, Any] | None:
        return self.states[0] if self.states else None

    @property
    def values(self) -> Values | None:
        return Values.from_state(self.state) if self.state else None

    @property
    def same_everywhere(self) -> bool:
        """Whether all rank groups have the switch, with the same values."""
        found = [Values.from_state(state) for state in self.states]
        return len(found) == len(self.ranks) and len(set(found)) == 1

    @property
    def limit(self) -> int | None:
        """Requests that run at once on one rank group."""
        limits = [rank.get("effective_max_running_requests_per_dp") for rank in self.ranks]
        known = [limit for limit in limits if isinstance(limit, int)]
        return min(known) if known else None

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed as the server last logged it, all rank groups together."""
        speeds = [rank.get("last_gen_throughput") for rank in self.ranks]
        known = [float(s) for s in speeds if isinstance(s, (int, float))]
        return sum(known) if known else None

    @classmethod
    def from_json(cls, raw: Any) -> Look:
        raw = raw if isinstance(raw, dict) else {"error": "no answer"}
        ranks = raw.get("ranks") or ()
        made = cls(
            at=raw.get("at") or 0.0,
            error=raw.get("error"),
            ranks=tuple(ranks) if isinstance(ranks, list) else (),
            device=raw.get("device"),
            graphs=raw.get("graphs"),
        )
        return cls(error="an answer of an unknown shape") if misfit(made, cls) else made


def access(server: ServerConfig) -> dict[str, object]:
    """How a program on the host reaches the server: its URL, and where its API key is found there."""
    files, key = api_key_sources(server)
    return {"url": local_url(server, launch_args(server)), "key_files": files, "key": key}


def look(host: Host, config: HostConfig, server: ServerConfig) -> Look:
    """What the server says of itself now; `error` says why when it does not answer."""
    raw = host.script(source("switch", "ask"), access(server), sudo=config.sudo, timeout_s=2 * ASK_S + 10)
    return Look.from_json(raw.get("look") if isinstance(raw, dict) else None)


def need_switch(seen: Look, host: str, server: str) -> Values:
    """The values of a server that has a switch.

    Raises:
        NotAnswering: nothing can be said of it.
        NoSwitch: it was started without a threshold.
    """
    context = {"host": host, "server": server}
    if seen.error:
        raise NotAnswering(
            f"{server} on {host} does not answer: {seen.error}",
            context=context,
            hint=f"is it running? specctl status --hosts {host}",
        )
    if seen.values is None:
        raise NoSwitch(
            f"{server} on {host} has no switch: it was started without a threshold, or without the overlay",
            context=context,
            hint="give it a `threshold:` in the inventory and deploy",
        )
    return seen.values


def change(host: Host, config: HostConfig, server: ServerConfig, values: Values) -> Look:
    """Change the values on all ranks at one step boundary, and look at all of them afterwards.

    Raises:
        NotAnswering: it did not answer, so the change may have been made or not.
        ThresholdRefused: the server said no (its words), or a rank does not show the new values.
    """
    params = {**access(server), "values": values.as_dict()}
    raw = host.script(source("switch", "ask"), params, sudo=config.sudo, timeout_s=CHANGE_S + 2 * ASK_S + 20)
    raw = raw if isinstance(raw, dict) else {}
    seen = Look.from_json(raw.get("look"))
    context = {"host": config.name, "server": server.name, "asked for": str(values)}
    context["it has"] = str(seen.values) if seen.values else seen.error or "no switch"
    if raw.get("refused") and not raw.get("answered"):
        raise NotAnswering(
            f"{server.name} on {config.name} did not answer to the change: {raw['refused']}",
            context=context,
            hint="look what it has now: specctl threshold get",
        )
    if raw.get("refused"):
        raise ThresholdRefused(
            f"{server.name} on {config.name} refuses: {raw['refused']}",
            context=context,
            hint="nothing was changed",
        )
    now = [Values.from_state(state) for state in seen.states]
    if len(now) != len(seen.ranks) or not now or not all(v is not None and values.agrees(v) for v in now):
        shown = "; ".join(str(v) for v in now) or seen.error or "nothing"
        raise ThresholdRefused(
            f"{server.name} on {config.name} took the change, but does not show it on every rank",
            code="threshold-not-seen",
            context={**context, "it has": shown},
            hint="look again: specctl threshold get",
        )
    return seen
