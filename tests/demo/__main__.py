"""`python -m tests.demo`: the whole job on this machine, without root and without a second machine."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from rig import environment
from rig.prepare import CannotPrepare
from rig.server import ServerDied

from .cast import Cast
from .promises import Broken
from .screen import Screen, Terminated
from .sshd import INSTALL, NoSshd, find_sshd, ssh_host
from .story import STEPS
from .teardown import end_host

INTRO = (
    "There is no GPU in this: SGLang's real scheduler, its real EAGLE workers and its real HTTP "
    "server run on the CPU, with small models and with stand-ins for the kernels that only CUDA has."
    " The SSH server, specctl, the builds, the deploys and the rollbacks are real. What a GPU adds "
    "is measured apart, see README.md."
)


def command_environment(folder: Path, outer: Mapping[str, str]) -> dict[str, str]:
    """Of every specctl that is run: nothing of the user's own inventory, state or colours."""
    kept = {k: v for k, v in outer.items() if not k.startswith(("SPECCTL_", "SGLANG_", "PYTHON"))}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"}


def write_rig_python(path: Path) -> None:
    """The rig's interpreter with its shims, as one program: for validating a build by importing it."""
    lines = (
        "#!/bin/sh",
        f'export PYTHONPATH="{environment.SHIMS}${{PYTHONPATH:+:$PYTHONPATH}}"',
        f'export PYTHONPYCACHEPREFIX="{environment.HOME}/pycache"',
        f'exec "{environment.python()}" -W ignore "$@"',
    )
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def tell(folder: Path) -> int:
    """Run all steps in `folder`; 0 when everything was as promised."""
    screen = Screen(folder, command_environment(folder, os.environ))
    screen.say(INTRO)
    write_rig_python(folder / "rig-python")
    screen.heading("An SSH host on loopback")
    with ssh_host(folder / "ssh") as ssh:
        screen.say(
            f"sshd as {ssh.user} on 127.0.0.1:{ssh.port}, with its own host key, login key and known_hosts."
        )
        cast = Cast(folder, screen, ssh, free_port())
        try:
            for number, (title, step) in enumerate(STEPS, 1):
                screen.heading(f"{number}. {title}")
                step(cast)
        except Broken as exc:
            screen.heading("Not as promised")
            screen.block(str(exc))
            return 1
        except (ServerDied, OSError, subprocess.CalledProcessError) as exc:
            if isinstance(exc.__context__, KeyboardInterrupt):  # Ctrl-C reached the server first
                raise exc.__context__ from None
            screen.heading("Failed")
            screen.block(f"{type(exc).__name__}: {exc}")
            return 1
        finally:
            end_host(cast.root)
        screen.heading("What was promised, and what was seen")
        screen.promises(cast.promises.kept)
        screen.say("No GPU took part: the CUDA-only kernels were stand-ins on the CPU.")
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main() -> None:
    """Prepare a folder, run, clean up."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the folder also when all went well")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    if reason := environment.why_not():
        sys.exit(reason)
    if find_sshd() is None and os.geteuid() == 0:
        subprocess.run(["bash", *INSTALL.split()], cwd=environment.ROOT, check=False)
    # compiled once, read by all servers here, the rig's own too
    os.environ["PYTHONPYCACHEPREFIX"] = str(environment.HOME / "pycache")
    folder, code = Path(tempfile.mkdtemp(prefix="specctl-demo-")), 1
    try:
        code = tell(folder)
    except NoSshd as exc:
        print(exc, file=sys.stderr)
    except CannotPrepare as exc:
        print(exc, file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    finally:
        if code or chosen.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
