"""Why sudo did not run a command: from its exit code and words to an error that helps. Pure."""

from __future__ import annotations

from specctl.host.errors import SudoNeedsPassword
from specctl.host.protocol import Result

_RULES = "`specctl sudoers` prints the rules that are needed (NOPASSWD)"
_OTHERWISE = "or log in as root, or use systemd-user with a root folder that the user owns"


def no_sudo(host: str, probe: Result) -> SudoNeedsPassword:
    """The error for a `sudo -n true` that failed.

    sudo speaks the host's language, and asks for a password before it says that a user may nothing: what is
    not understood is taken for either.
    """
    said = probe.tail
    if probe.exit_code == 127:
        code, what, hint = "sudo-missing", f"sudo is not installed on {host}", "install it there"
    elif "must have a tty" in said:
        code, what = "sudo-tty", f"sudo wants a terminal on {host}"
        hint = "take requiretty out of its sudoers for this user (Defaults:USER !requiretty)"
    elif "in the sudoers file" in said or "not allowed to" in said:
        code, what, hint = "sudo-refused", f"sudo does not let this user in on {host}", _RULES
    else:
        code, what = "sudo-password", f"sudo asks for a password on {host}, or is not allowed there"
        hint = f"allow it without one: {_RULES}"
    return SudoNeedsPassword(
        what,
        code=code,
        context={"host": host, "command": "sudo -n true", "output": said},
        hint=f"{hint}, {_OTHERWISE}",
    )
