"""Whatever a user points at: the right sglang is found, with its version, or a sentence says why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from overlay.builders import FILES, dist_info, write_release, write_tree, write_venv, write_wheel
from specctl.overlay import Tree, TreeError
from specctl.overlay.environment import ask, environment_paths
from specctl.overlay.tree import TreeKind


def test_a_folder_above_sglang(tmp_path):
    tree = Tree.open(write_release(tmp_path))
    assert (tree.kind, tree.version, tree.root) == (TreeKind.FOLDER, "0.5.9", tmp_path)
    assert tree.version_source == "sglang-0.5.9.dist-info/METADATA"
    assert set(tree.recorded or ()) == {*FILES, "sglang/version.py"}


def test_sglang_itself_and_a_checkout(tmp_path):
    write_tree(tmp_path / "python")
    for path in (tmp_path, tmp_path / "python", tmp_path / "python" / "sglang"):
        tree = Tree.open(path)
        assert (tree.root, tree.version, tree.recorded) == (tmp_path / "python", "0.5.9", None)


def test_a_checkout_that_is_called_sglang_is_not_taken_for_the_package(tmp_path):
    write_tree(tmp_path / "sglang" / "python")
    assert Tree.open(tmp_path / "sglang").root == tmp_path / "sglang" / "python"
    with pytest.raises(TreeError):
        Tree.open(tmp_path)


@pytest.mark.parametrize("form", ["folder", "python", "site-packages"])
def test_an_environment_by_its_folder_its_python_or_its_site_packages(tmp_path, form):
    site = write_venv(tmp_path / "venv", version="0.5.9+specctl.2")
    (tmp_path / "venv" / "bin").mkdir()
    python = tmp_path / "venv" / "bin" / "python"
    python.symlink_to(sys.executable)
    path = {"folder": tmp_path / "venv", "python": python, "site-packages": site}[form]
    tree = Tree.open(path)
    assert (tree.kind, tree.version, tree.root) == (TreeKind.INSTALLED, "0.5.9+specctl.2", site)


def test_a_real_virtual_environment_is_found_through_its_interpreter(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    assert site in ask(python)
    with pytest.raises(TreeError, match="no sglang is installed"):
        Tree.open(tmp_path / "venv")
    other = write_release(tmp_path / "elsewhere")
    (site / "more.pth").write_text(f"{other}\n")
    assert Tree.open(python).root == other


def test_an_interpreter_that_does_not_run_is_named(tmp_path):
    broken = tmp_path / "bin" / "python3"
    broken.parent.mkdir()
    broken.write_text("#!/nowhere\n")
    broken.chmod(0o755)
    with pytest.raises(TreeError, match="does not run as a Python interpreter"):
        environment_paths(broken)


EDITABLE = {
    "import hook": lambda site, src: (site / "__editable___sglang_0_5_9_finder.py").write_text(
        f"from x import y\nMAPPING: dict[str, str] = {{'sglang': {str(src / 'sglang')!r}}}\n"
    ),
    "path file": lambda site, src: (site / "__editable__.sglang-0.5.9.pth").write_text(
        f"# it\nimport x\n{src}\n"
    ),
    "direct_url.json": lambda site, src: (site / "sglang-0.5.9.dist-info" / "direct_url.json").write_text(
        f'{{"url": "file://{str(src.parent).replace(" ", "%20")}", "dir_info": {{"editable": true}}}}'
    ),
}


@pytest.mark.parametrize("way", EDITABLE)
def test_an_editable_install_leads_to_its_checkout(tmp_path, way):
    source = write_tree(tmp_path / "my checkout" / "python")
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for path, data in dist_info({}, "0.5.9").items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
    EDITABLE[way](site, source)
    tree = Tree.open(tmp_path / "venv")
    assert (tree.kind, tree.root, tree.version) == (TreeKind.EDITABLE, source, "0.5.9")
    assert tree.recorded is None


def test_an_install_from_a_folder_that_is_not_editable_is_not_followed(tmp_path):
    source = write_tree(tmp_path / "checkout" / "python")
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for path, data in dist_info({}, "0.5.9").items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
    url = f'{{"url": "file://{source.parent}", "dir_info": {{}}}}'
    (site / "sglang-0.5.9.dist-info" / "direct_url.json").write_text(url)
    with pytest.raises(TreeError, match="no sglang is installed"):
        Tree.open(tmp_path / "venv")


def test_a_wheel(tmp_path):
    tree = Tree.open(write_wheel(tmp_path / "sglang-0.5.9-py3-none-any.whl"))
    assert (tree.kind, tree.version) == (TreeKind.WHEEL, "0.5.9")
    assert tree.read("sglang/srt/worker.py") == FILES["sglang/srt/worker.py"]
    assert tree.read("sglang/nothing.py") is None
    assert "sglang/version.py" in tree.sources()


def test_wheels_that_are_none(tmp_path):
    broken = tmp_path / "sglang-0.5.9-py3-none-any.whl"
    broken.write_bytes(write_wheel(tmp_path / "whole.whl").read_bytes()[:200])
    with pytest.raises(TreeError, match="no readable wheel"):
        Tree.open(broken)
    other = write_wheel(tmp_path / "other.whl", {"flask/__init__.py": b""})
    with pytest.raises(TreeError, match="no wheel of sglang"):
        Tree.open(other)


def test_two_distributions_of_sglang_are_refused(tmp_path):
    site = write_venv(tmp_path / "venv")
    for path, data in dist_info(FILES, "0.5.8").items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_bytes(data)
    with pytest.raises(TreeError, match="two distributions") as caught:
        Tree.open(tmp_path / "venv")
    assert "sglang-0.5.8.dist-info" in caught.value.context["found"]


def test_a_package_whose_name_begins_alike_is_not_sglang(tmp_path):
    site = write_venv(tmp_path / "venv")
    (site / "sglang-router-0.1.dist-info").mkdir()
    (site / "sglang-router-0.1.dist-info" / "METADATA").write_text("Name: sglang-router\nVersion: 0.1\n")
    assert Tree.open(tmp_path / "venv").version == "0.5.9"


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("version.py", '__version__ = "0.5.9"\n', "0.5.9"),
        ("_version.py", "__version__ = version = '0.5.10'\n", "0.5.10"),
        ("_version.py", "__version__: str\n__version__ = version = '0.5.10'\n", "0.5.10"),
        (
            "version.py",
            "try:\n    from sglang._version import __version__\nexcept ImportError:\n    pass\n",
            None,
        ),
    ],
)
def test_the_version_of_a_source_tree(tmp_path, file, text, version):
    write_tree(tmp_path, version=None)
    (tmp_path / "sglang" / file).write_text(text)
    assert Tree.open(tmp_path).version == version


def test_paths_that_hold_no_sglang(tmp_path):
    with pytest.raises(TreeError, match="does not exist"):
        Tree.open(tmp_path / "nowhere")
    with pytest.raises(TreeError, match="holds no sglang"):
        Tree.open(tmp_path)
    file = tmp_path / "notes.txt"
    file.write_text("x")
    with pytest.raises(TreeError, match="holds no sglang"):
        Tree.open(file)


def test_a_record_with_a_broken_hash_matches_no_file(tmp_path):
    root = write_release(tmp_path)
    record = root / "sglang-0.5.9.dist-info" / "RECORD"
    record.write_text(
        "sglang/__init__.py,sha256=*,3\nsglang/version.py,md5=abc,3\nsglang/x.pyc,sha256=abc,1\n"
    )
    recorded: dict[str, str] = dict(Tree.open(root).recorded or {})
    assert list(recorded) == ["sglang/__init__.py"]
    assert len(recorded["sglang/__init__.py"]) != 64


def test_reading_what_cannot_be_read_says_so(tmp_path):
    tree = Tree.open(write_tree(tmp_path))
    (tmp_path / "sglang" / "folder.py").mkdir()
    with pytest.raises(TreeError, match=r"folder.py cannot be read"):
        tree.read("sglang/folder.py")
    assert tree.read("sglang/version.py/below.py") is None
    assert isinstance(tree.root, Path)
