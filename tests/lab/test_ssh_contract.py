"""A host behind ssh keeps the contract of a host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host.contract import HostContract

from specctl.host.protocol import Host
from specctl.host.ssh import SshHost

from .hosts import ssh_to
from .lab import Lab

pytestmark = pytest.mark.lab


class TestSshHost(HostContract):
    @pytest.fixture
    def host(self, in_lab: Lab) -> Iterator[Host]:
        host = SshHost("h1", ssh_to(in_lab, "h1"))
        yield host
        host.close()

    @pytest.fixture
    def folder(self, host: Host) -> Iterator[str]:
        path = host.run(["mktemp", "-d", "/srv/app/test.XXXXXX"]).text.strip()
        yield path
        host.run(["rm", "-rf", path])
