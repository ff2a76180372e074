"""The lines of docs/containers.md, carried out on a real TensorFlow. See containers.py for how, without an engine.

``--bare-root FOLDER`` takes an operating system in a folder in place of fresh environments; `nox -s containers` does.
"""

import json
import os
import re
import shutil
from collections import namedtuple

import pytest
import yaml

import matrix
from containers import BareRoot, Image, Tree, blocks
from environments import ROOT, Environment, interpreter, run, uv

PREINSTALLED, PINNED = "TensorFlow is in the image", "TensorFlow is in requirements.txt"
READ_ONLY, WITHOUT_PIP = "Read-only root file system, and no root", "Images without pip"
# The rows of the matrix that stand for an image with TensorFlow in it, by the Python of the tree.
ROWS = {"3.10": "2.10", "3.11": "2.12"}

Workshop = namedtuple("Workshop", ["context", "tree_of"])


@pytest.fixture(scope="module")
def workshop(request, distributions, tmp_path_factory):
    """The folder that COPY copies from, and how to make an empty tree for a Python version."""
    context = tmp_path_factory.mktemp("context")
    shutil.copy(str(ROOT / "tests" / "packaging" / "train_in_container.py"), str(context / "train.py"))
    shutil.copy(str(distributions.wheel), str(context))
    bare = request.config.getoption("--bare-root")
    folder = tmp_path_factory.mktemp("trees")

    def tree_of(name, version):
        return BareRoot(folder / name, bare) if bare else Tree(folder / name, version)

    yield Workshop(context, tree_of)
    shutil.rmtree(str(folder))  # some GB, of which pytest would keep three


@pytest.fixture(scope="module")
def preinstalled(workshop, distributions):
    """The image with TensorFlow in it, and what pip said was installed before and after."""
    tree = workshop.tree_of("preinstalled", "3.10")
    row = matrix.row(ROWS[tree.version])
    tree.add_python()
    uv("pip", "install", "--python", interpreter(tree.version), "--target", tree.site_packages, row.package, *row.pins)
    image = Image(tree, workshop.context)
    before = image.run(["pip", "freeze"])
    with_wheels(tree, [distributions.wheel])
    [dockerfile] = blocks(PREINSTALLED, "dockerfile")
    image.build(dockerfile, **OFFLINE)
    return image, set(before.split("\n")), set(image.run(["pip", "freeze"]).split("\n"))


# All that pip is told: there is no index in the tree, only a folder of wheels.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels", "PIP_CONFIG_FILE": "/dev/null"}


def with_wheels(tree, wheels):
    tree.path("/wheels").mkdir(exist_ok=True)
    for wheel in wheels:
        shutil.copy(str(wheel), str(tree.path("/wheels")))


@pytest.fixture(scope="module")
def pinned(workshop, distributions, tmp_path_factory):
    """The image that installs requirements.txt, with the network of pip replaced by wheels that were fetched before."""
    [text] = blocks(PINNED, "text")
    [dockerfile] = blocks(PINNED, "dockerfile")
    text = text.replace("tensorflow==", "tensorflow-cpu==")
    assert "tensorflow-cpu==" in text
    (workshop.context / "requirements.txt").write_text(text)
    tree = workshop.tree_of("pinned", re.match(r"FROM python:(3\.\d+)-slim\n", dockerfile).group(1))
    tree.add_python()
    wheels = tmp_path_factory.mktemp("wheels")
    pip = Environment(tmp_path_factory.mktemp("pip") / "env", tree.version).python
    run(pip, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--only-binary", ":all:", "--dest", wheels,
        "--find-links", distributions.wheel.parent, "-r", workshop.context / "requirements.txt")  # fmt: skip
    with_wheels(tree, wheels.iterdir())
    image = Image(tree, workshop.context).build(dockerfile, **OFFLINE)
    shutil.rmtree(str(wheels))
    shutil.rmtree(str(tree.path("/wheels")))
    return image


def trained(image, env=(), **options):
    """Start CMD, and return what the script printed of its training."""
    done = image.start(env=env, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_patched(result, floor=1e-4):
    assert result["trained"]["scale"] == 2.0**-5
    assert all(0 < weight < 1 for weight in result["trained"]["weights"])
    assert result["floor"] == pytest.approx(floor, rel=1e-6)


def assert_stock(result):
    if result["tensorflow"].startswith(("2.10.", "2.12.")):
        assert result["trained"] == {"scale": 1.0, "weights": [1.0, 1.0]}
        assert result["floor"] == 1.0
    else:  # Keras 3, which has no floor at all
        assert result["floor"] < 1e-12


def test_pip_adds_the_package_to_an_image_and_moves_nothing(preinstalled):
    _, before, after = preinstalled
    assert not before - after
    assert [line.split("=")[0].split(" ")[0] for line in after - before] == ["tfls-patch"]


def test_a_script_in_an_image_with_tensorflow_is_patched_with_the_bounds_of_env(preinstalled):
    assert_patched(trained(preinstalled[0]))


def test_the_kill_switch_wins_over_the_image(preinstalled):
    assert_stock(trained(preinstalled[0], {"TFLS_PATCH": "0"}))


@pytest.mark.parametrize("heading", ["Kubernetes", "docker-compose"])
def test_variables_of_a_manifest_win_over_those_of_the_image(preinstalled, heading):
    env = _variables(yaml.safe_load(blocks(heading, "yaml")[0]))
    assert set(env) == {"TFLS_PATCH", "TFLS_PATCH_MIN_SCALE"}
    assert all(isinstance(value, str) for value in env.values())
    assert_patched(trained(preinstalled[0], env), floor=float(env["TFLS_PATCH_MIN_SCALE"]))


def _variables(manifest):
    if "services" in manifest:
        return manifest["services"]["train"]["environment"]
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_every_other_block_of_yaml_is_valid():
    assert yaml.safe_load(blocks("A kill switch for the operator", "yaml")[0])["envFrom"]
    context = yaml.safe_load(blocks(READ_ONLY, "yaml")[0])["securityContext"]
    [user] = blocks(READ_ONLY, "dockerfile")
    assert user.split()[1].split(":")[0] == str(context["runAsUser"])


def test_requirements_with_the_package_pinned_beside_tensorflow_are_patched(pinned):
    assert_patched(trained(pinned))


def test_the_check_passes_in_the_image_and_fails_where_the_patch_is_off(pinned):
    [line] = blocks("Check the image", "dockerfile")
    command = line.partition(" ")[2]
    assert "TFLS_PATCH=1" in command
    pinned.run(["sh", "-c", command])
    assert pinned.start(["sh", "-c", command.replace("TFLS_PATCH=1", "TFLS_PATCH=0")]).returncode == 1


def test_a_read_only_root_and_a_user_without_privileges_are_enough(pinned):
    [line] = blocks(READ_ONLY, "dockerfile")
    image = Image(pinned.tree, pinned.context).build(line)
    image.env, image.folder, image.command = dict(pinned.env, HOME="/nonexistent"), pinned.folder, pinned.command
    privileges = image.run(["grep", "CapEff", "/proc/self/status"], read_only=True)
    assert re.match(r"CapEff:\s*0+\s*$", privileges)
    assert_patched(trained(image, read_only=True))
    status = image.start(["python", "-m", "tfls_patch", "status"], {"PYTHONDONTWRITEBYTECODE": "1"}, read_only=True)
    assert status.returncode == 0, status.stdout + status.stderr


def test_nothing_of_ours_is_written_when_the_script_runs(preinstalled):
    image, _, _ = preinstalled

    def ours():
        return {
            str(path): path.stat().st_mtime_ns
            for path in image.tree.root.rglob("*tfls*")
            for path in [path, *path.rglob("*")]
        }

    before = ours()
    assert len(before) > 20
    assert_patched(trained(image))
    assert ours() == before


@pytest.fixture(scope="module")
def tree_without_pip(workshop, pinned):
    """A tree with the TensorFlow of `pinned` in it, and neither pip nor our package."""
    tree = workshop.tree_of("without-pip", pinned.tree.version)
    tree.add_python("--without-pip")
    shutil.rmtree(str(tree.site_packages))
    leave = shutil.ignore_patterns("pip", "pip-*", "tfls*")
    shutil.copytree(
        str(pinned.tree.site_packages), str(tree.site_packages), ignore=leave, symlinks=True, copy_function=os.link
    )
    return tree


@pytest.mark.parametrize("block", [0, 1], ids=["on-PYTHONPATH", "in-site-packages"])
def test_the_wheel_unpacked_without_pip_works(workshop, tree_without_pip, block):
    image = Image(tree_without_pip, workshop.context)
    assert image.start(["python", "-m", "pip"]).returncode != 0
    assert image.start(["python", "-c", "import tfls_patch"]).returncode != 0
    image.build(blocks(WITHOUT_PIP, "dockerfile")[block])
    assert_patched(trained(image))
    hooks = "import sys; print([type(each).__module__ for each in sys.meta_path].count('tfls_patch._activation'))"
    assert image.run(["python", "-c", hooks], {"TFLS_PATCH": "1"}).strip() == str(block)
    assert image.start(["python", "-m", "tfls_patch", "doctor"], {"TFLS_PATCH": "1"}).returncode == 1 - block
    assert_stock(trained(image, {"TFLS_PATCH": "0"}))
