"""What every host does, whatever is between it and us. Subclasses bring the fixtures `host` and `folder`.

`folder` is an empty folder on the host, as text; `local` is one on this machine.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from specctl.errors import UsageError
from specctl.host.errors import CommandFailed, FileRefused, HostTimeout
from specctl.host.protocol import Host

AWKWARD = [
    "two words",
    "",
    "it's",
    '"quoted"',
    "$HOME `id` $(id) ; rm -rf x & | > <",
    "back\\slash",
    "new\nline",
    "*",
    "~",
    "!history",
    "-n",
    "é ☃ \u202e",
]


def put(host: Host, data: bytes, local: Path, remote: str, **options: object) -> bool:
    """Put `data` through a local file."""
    source = local / "source"
    source.write_bytes(data)
    return host.put(source, remote, sha256=hashlib.sha256(data).hexdigest(), **options)  # type: ignore[arg-type]


class HostContract:
    """Cases for any Host that runs real commands."""

    @pytest.fixture
    def local(self, tmp_path: Path) -> Path:
        folder = tmp_path / "operator"
        folder.mkdir()
        return folder

    # -- run

    @pytest.mark.parametrize("word", AWKWARD)
    def test_every_word_arrives_as_it_was_given(self, host: Host, word: str) -> None:
        assert host.run(["printf", "%s|%s|", word, "end"]).stdout == f"{word}|end|".encode()

    def test_output_that_is_not_utf8_arrives_byte_for_byte(self, host: Host) -> None:
        result = host.run(["printf", r"caf\351 \360\237\230\200 \033[31mred\033[0m\rx\000y"])
        assert result.stdout == b"caf\xe9 \xf0\x9f\x98\x80 \x1b[31mred\x1b[0m\rx\x00y"
        assert result.text.startswith("caf� 😀")

    def test_stdout_and_stderr_are_kept_apart(self, host: Host) -> None:
        result = host.run(["sh", "-c", "echo out; echo err >&2"])
        assert (result.stdout, result.stderr) == (b"out\n", b"err\n")

    def test_a_failing_command_raises_with_command_code_and_the_end_of_its_output(self, host: Host) -> None:
        with pytest.raises(CommandFailed, match="exit code 3") as caught:
            host.run(["sh", "-c", "for i in $(seq 100); do echo line $i; done >&2; exit 3"])
        context = caught.value.context
        assert context["host"] == host.name
        assert context["command"].startswith("sh -c 'for i in")
        assert context["output"].splitlines()[-1] == "line 100"
        assert len(context["output"].splitlines()) == 15

    @pytest.mark.parametrize(
        ("argv", "code"),
        [(["false"], 1), (["no-such-program"], 127), (["sh", "-c", "kill -9 $$"], 137)],
    )
    def test_unchecked_exit_codes_are_the_shells(self, host: Host, argv: list[str], code: int) -> None:
        assert host.run(argv, check=False).exit_code == code

    def test_a_missing_program_is_named(self, host: Host) -> None:
        with pytest.raises(CommandFailed, match="no-such-program was not found"):
            host.run(["no-such-program"])

    def test_stdin_is_bytes_and_ends(self, host: Host) -> None:
        assert host.run(["cat"], stdin=b"\x00\xff\n" * 3).stdout == b"\x00\xff\n" * 3
        assert host.run(["cat"]).stdout == b""

    def test_a_command_that_ignores_its_stdin_is_no_error(self, host: Host) -> None:
        assert host.run(["true"], stdin=b"x" * (4 << 20)).ok

    def test_large_input_and_output_at_once_do_not_block_each_other(self, host: Host) -> None:
        data = bytes(range(256)) * 16384  # 4 MiB, more than any pipe or window holds
        assert host.run(["cat"], stdin=data).stdout == data

    def test_variables_and_folder(self, host: Host, folder: str) -> None:
        host.run(["mkdir", f"{folder}/a b"])
        result = host.run(
            ["sh", "-c", 'printf "%s %s" "$X" "$PWD"'], env={"X": "it's $HOME"}, cwd=f"{folder}/a b"
        )
        assert result.text == f"it's $HOME {folder}/a b"

    def test_a_folder_that_is_not_there_is_not_the_commands_own_failure(
        self, host: Host, folder: str
    ) -> None:
        assert host.run(["false"], cwd=f"{folder}/none", check=False).exit_code == 125

    def test_a_variable_name_that_is_a_command_is_refused(self, host: Host) -> None:
        with pytest.raises(ValueError, match="environment variable"):
            host.run(["true"], env={"X; rm": "1"})

    def test_a_command_that_hangs_is_ended_at_its_deadline(self, host: Host, folder: str) -> None:
        began = time.monotonic()
        with pytest.raises(HostTimeout, match=r"did not end within 3 s") as caught:
            host.run(["sh", "-c", f"echo started; echo $$ > {folder}/pid; sleep 60"], timeout_s=3)
        assert time.monotonic() - began < 30
        assert caught.value.context["output so far"] == "started"

    def test_a_flood_of_output_keeps_its_beginning_and_its_end(self, host: Host) -> None:
        result = host.run(["sh", "-c", "echo first; head -c 20000000 /dev/zero; echo; echo last"])
        assert result.stdout.startswith(b"first\n\x00")
        assert result.stdout.endswith(b"\x00\nlast\n")
        assert b"bytes left out ...]" in result.stdout
        assert len(result.stdout) < 9 << 20
        assert result.dropped > 10_000_000

    def test_a_child_that_keeps_the_output_open_does_not_hold_the_command(self, host: Host) -> None:
        began = time.monotonic()
        assert host.run(["sh", "-c", "sleep 30 & echo done"], timeout_s=20).stdout == b"done\n"
        assert time.monotonic() - began < 10

    # -- stream

    def test_lines_are_handed_over_and_the_last_needs_no_line_feed(self, host: Host) -> None:
        lines: list[bytes] = []
        code = host.stream(["sh", "-c", r"printf 'one\ntwo\r\nthr\351e'; exit 4"], lines.append)
        assert (lines, code) == ([b"one", b"two\r", b"thr\xe9e"], 4)

    def test_a_stream_ends_when_it_is_told_to_and_so_does_its_command(self, host: Host, folder: str) -> None:
        lines: list[bytes] = []

        def three(line: bytes) -> bool:
            lines.append(line)
            return len(lines) < 3

        program = f"echo $$ > {folder}/pid; echo 1; echo 2; echo 3; exec sleep 60"  # says nothing more
        assert host.stream(["sh", "-c", program], three) == -1
        assert lines == [b"1", b"2", b"3"]
        gone = "for i in $(seq 50); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1"
        assert host.run(["sh", "-c", gone], cwd=folder).ok

    def test_a_line_without_an_end_is_cut(self, host: Host) -> None:
        lines: list[bytes] = []
        host.stream(["sh", "-c", "head -c 300000 /dev/zero; echo; echo next"], lines.append)
        assert [len(line) for line in lines] == [64 << 10, 4]

    def test_a_silent_stream_meets_its_deadline(self, host: Host) -> None:
        with pytest.raises(HostTimeout):
            host.stream(["sleep", "60"], lambda line: True, timeout_s=1)

    # -- files

    def test_a_file_arrives_whole_with_its_mode(self, host: Host, folder: str, local: Path) -> None:
        data = bytes(range(256)) * 10_000
        sent: list[int] = []
        assert put(host, data, local, f"{folder}/it's here", mode=0o640, progress=sent.append) is True
        assert host.read(f"{folder}/it's here") == data
        assert host.run(["stat", "-c", "%a", f"{folder}/it's here"]).stdout == b"640\n"
        assert sent[-1] == len(data)

    def test_a_file_that_is_there_is_not_sent_again(self, host: Host, folder: str, local: Path) -> None:
        put(host, b"content", local, f"{folder}/f")
        before = host.run(["stat", "-c", "%i", f"{folder}/f"]).stdout
        assert put(host, b"content", local, f"{folder}/f") is False
        assert host.run(["stat", "-c", "%i", f"{folder}/f"]).stdout == before

    def test_another_mode_alone_is_set_without_sending(self, host: Host, folder: str, local: Path) -> None:
        put(host, b"content", local, f"{folder}/f", mode=0o644)
        assert put(host, b"content", local, f"{folder}/f", mode=0o755) is False
        assert host.run(["stat", "-c", "%a", f"{folder}/f"]).stdout == b"755\n"

    def test_a_damaged_file_of_the_same_size_is_replaced(self, host: Host, folder: str, local: Path) -> None:
        host.write(b"contenT", f"{folder}/f")
        assert put(host, b"content", local, f"{folder}/f") is True
        assert host.read(f"{folder}/f") == b"content"

    def test_a_local_file_that_changed_since_the_plan_is_refused(
        self, host: Host, folder: str, local: Path
    ) -> None:
        (local / "f").write_bytes(b"changed")
        with pytest.raises(UsageError, match="not the file that was planned"):
            host.put(local / "f", f"{folder}/f", sha256=hashlib.sha256(b"planned").hexdigest())
        assert host.read(f"{folder}/f") is None

    def test_a_file_that_changes_while_it_is_sent_is_refused_and_not_installed(
        self, host: Host, folder: str, local: Path
    ) -> None:
        def spoil(sent: int) -> None:
            with (local / "source").open("r+b") as source:
                source.seek(-4, 2)
                source.write(b"else")

        with pytest.raises(FileRefused) as caught:
            put(host, b"x" * (4 << 20), local, f"{folder}/f", progress=spoil)
        assert "after the transfer" in caught.value.context["cause"]
        assert host.run(["ls", "-A", folder]).stdout == b""

    def test_no_temporary_file_is_left(self, host: Host, folder: str, local: Path) -> None:
        put(host, b"x" * 300_000, local, f"{folder}/f")
        host.write(b"y", f"{folder}/g")
        assert host.run(["ls", "-A", folder]).text.split() == ["f", "g"]

    def test_what_a_killed_transfer_left_is_swept_by_the_next(self, host: Host, folder: str) -> None:
        host.run(["touch", f"{folder}/.f.receiving-99999999", f"{folder}/.other.receiving-99999999"])
        host.write(b"y", f"{folder}/f")
        assert sorted(host.run(["ls", "-A", folder]).text.split()) == [".other.receiving-99999999", "f"]

    def test_a_missing_folder_is_said(self, host: Host, folder: str) -> None:
        with pytest.raises(FileRefused, match="its folder does not exist"):
            host.write(b"x", f"{folder}/none/f")

    def test_reading_is_bounded_and_a_missing_file_is_none(self, host: Host, folder: str) -> None:
        host.write(b"0123456789", f"{folder}/f")
        assert host.read(f"{folder}/f", limit=4) == b"0123"
        assert host.read(f"{folder}/none") is None
        assert host.read(f"{folder}/f/below") is None

    def test_a_large_file_can_be_read(self, host: Host, folder: str) -> None:
        host.run(["sh", "-c", f"head -c 12000000 /dev/urandom > {folder}/big"])
        data = host.read(f"{folder}/big", limit=12 << 20)
        assert data is not None
        assert hashlib.sha256(data).hexdigest() == host.run(["sha256sum", f"{folder}/big"]).text.split()[0]

    def test_a_folder_cannot_be_read_as_a_file(self, host: Host, folder: str) -> None:
        with pytest.raises(FileRefused):
            host.read(folder)

    def test_a_link_is_replaced_and_not_followed(self, host: Host, folder: str) -> None:
        host.run(["ln", "-s", "elsewhere", f"{folder}/f"])
        host.write(b"x", f"{folder}/f")
        assert host.run(["sh", "-c", "ls -A; test ! -L f"], cwd=folder).text.split() == ["f"]

    # -- script

    def test_a_script_gets_its_parameters_and_answers_json(self, host: Host) -> None:
        source = "import json, sys\nprint(json.dumps({'got': params, 'isolated': sys.flags.isolated}))"
        params = {"text": "é\n'", "list": [1, None]}
        assert host.script(source, params) == {"got": params, "isolated": 1}

    def test_noise_around_the_answer_is_passed_over(self, host: Host) -> None:
        source = "import json\nprint('[sudo] welcome {')\nprint(json.dumps([1]))\nprint('bye')"
        assert host.script(source, {}) == [1]

    def test_nothing_of_a_script_shows_in_the_process_list(self, host: Host) -> None:
        source = (
            "import json\ntoken = 'in-the-source'\n"
            "print(json.dumps(open('/proc/self/cmdline').read() + open(f'/proc/{__import__(\"os\").getppid()}"
            "/cmdline').read()))"
        )
        seen = host.script(source, {"secret": "in-the-params"})
        assert isinstance(seen, str)
        assert "python" in seen
        assert "in-the-source" not in seen
        assert "in-the-params" not in seen

    def test_a_script_that_raises_shows_its_traceback(self, host: Host) -> None:
        with pytest.raises(CommandFailed) as caught:
            host.script("raise RuntimeError('broken here')", {})
        assert "broken here" in caught.value.context["output"]
        assert caught.value.context["command"] == "python3 -I -"

    def test_a_script_without_an_answer_is_an_error(self, host: Host) -> None:
        with pytest.raises(CommandFailed, match="printed no JSON document"):
            host.script("print('hello')", {})

    def test_a_script_meets_its_deadline(self, host: Host) -> None:
        with pytest.raises(HostTimeout):
            host.script("import time\ntime.sleep(60)", {}, timeout_s=1)

    def test_a_python_that_is_not_there_gives_way_to_the_hosts(self, host: Host) -> None:
        assert host.script("print(1)", {}, python="/opt/none/bin/python3") == 1
