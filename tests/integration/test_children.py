"""The variables reach the processes that a process starts, in every way that Python programs start them.

In none of them does the program import tfls_patch before TensorFlow: the environment alone is enough. All of them are
started when the first test runs, as many at a time as there are processors, since each has TensorFlow to import.
"""

import collections
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from processes import run_python

pytestmark = pytest.mark.once

FLOOR = 0.25

# What each process does in the end. The scale is what an overflow at a scale of 1 leads to, so it does not depend on
# what the package says of itself; neither does the module that the code of `update` is from.
REPORT = """
import json, os

def report(**more):
    import tensorflow as tf
    from tensorflow.python.training.experimental.loss_scale import DynamicLossScale
    scale = DynamicLossScale(initial_loss_scale=1.0)
    for _ in range(4):
        scale.update([tf.constant(float("inf"))])
    home = DynamicLossScale.update.__globals__["__name__"]
    seen = dict(more, process=os.getpid(), scale=float(scale()), home=home)
    import tfls_patch
    status = tfls_patch.status()
    return json.dumps(dict(seen, patched=len(status.patched), floor=status.min_scale.value))
"""

SAY = "from report import report\nprint('REPORT ' + report(), flush=True)\n"

MULTIPROCESSING = """
import multiprocessing, sys
from report import report

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print("REPORT " + pool.apply(report))
"""

# TensorFlow does not survive a fork once it has computed something, so it has not.
FORK_AFTER_IMPORT = """
import os
import tensorflow
from report import report

if os.fork() == 0:
    print("REPORT " + report(), flush=True)
    os._exit(0)
os.wait()
"""

STARTS_A_CHILD = """
import subprocess, sys

subprocess.check_call([sys.executable, "say.py"])
"""

LAUNCHER = """
"$1" say.py & first=$!
"$1" say.py & second=$!
wait $first && wait $second
"""

# The kernel is one that Jupyter finds and starts by itself; the cell is typed into it.
NOTEBOOK = """
from jupyter_client.manager import start_new_kernel

def show(message):
    if message["msg_type"] == "stream":
        print(message["content"]["text"], end="", flush=True)

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)
try:
    cell = open("report.py").read() + "print('REPORT ' + report())"
    reply = client.execute_interactive(cell, timeout=300, output_hook=show)
    assert reply["content"]["status"] == "ok", reply
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
"""

XDIST = """
from report import report

def test_in_a_worker(worker_id):
    with open("said", "a") as file:
        file.write("REPORT " + report(worker=worker_id) + "\\n")
"""

FILES = {
    "report.py": REPORT,
    "say.py": SAY,
    "pool.py": MULTIPROCESSING,
    "forks.py": FORK_AFTER_IMPORT,
    "starts_a_child.py": STARTS_A_CHILD,
    "launch.sh": LAUNCHER,
    "notebook.py": NOTEBOOK,
    "test_worker.py": XDIST,
}

Way = collections.namedtuple("Way", ["arguments", "processes"])

SHELL = "import subprocess, sys; sys.exit(subprocess.call(['sh', 'launch.sh', sys.executable]))"
WORKERS = ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-n", "2", "--dist=each")

#: How this interpreter is started, and how many processes then report.
WAYS = {
    "subprocess": Way(("starts_a_child.py",), 1),
    "spawn": Way(("pool.py", "spawn"), 1),
    "fork": Way(("pool.py", "fork"), 1),
    "forkserver": Way(("pool.py", "forkserver"), 1),
    "fork after the import": Way(("forks.py",), 1),
    "a launcher in the shell": Way(("-c", SHELL), 2),
    "a Jupyter kernel": Way(("notebook.py",), 1),
    "workers of pytest-xdist": Way(WORKERS + ("test_worker.py",), 2),
}

ON = {"TFLS_PATCH": "1", "TFLS_PATCH_MIN_SCALE": str(FLOOR)}
OFF = {"TFLS_PATCH": "0", "TFLS_PATCH_MIN_SCALE": str(FLOOR)}
RUN = ("-m", "tfls_patch", "run", "--min-scale", str(FLOOR), "starts_a_child.py")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Returns ``reports(name) -> [what each process reported]`` for what CASES name."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {name: pool.submit(_reports, tmp_path_factory.mktemp("case"), *case) for name, case in CASES.items()}
        yield lambda name: running[name].result()


def _reports(folder, way, variables):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    # Neither the kernels nor the settings of whoever runs the tests.
    private = {name: str(folder / name) for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    finished = run_python(folder, *way.arguments, **dict(private, **variables))
    output = finished.stdout + finished.stderr
    assert finished.returncode == 0, output
    said = finished.stdout + ((folder / "said").read_text() if (folder / "said").exists() else "")
    found = [json.loads(line[len("REPORT ") :]) for line in said.splitlines() if line.startswith("REPORT ")]
    assert len({report["process"] for report in found}) == way.processes, output
    return found


CASES = {("run", "on"): (Way(RUN, 1), {}), ("run", "off"): (Way(RUN, 1), {"TFLS_PATCH": "0"})}
for each, how in WAYS.items():
    CASES.update({(each, "on"): (how, ON), (each, "off"): (how, OFF)})


@pytest.mark.parametrize("name", ["run"] + list(WAYS))
def test_every_process_is_patched_and_has_the_floor_of_the_environment(reports, name):
    for report in reports((name, "on")):
        assert report["home"].startswith("tfls_patch.")
        assert report["scale"] == FLOOR
        assert report["patched"] > 0
        assert report["floor"] == FLOOR


@pytest.mark.parametrize("name", ["run"] + list(WAYS))
def test_no_process_is_patched_under_the_kill_switch(reports, name):
    for report in reports((name, "off")):
        assert report["home"] == "tensorflow.python.training.experimental.loss_scale"
        assert report["scale"] == 1.0
        assert report["patched"] == 0


def test_both_workers_of_xdist_reported(reports):
    assert {report["worker"] for report in reports(("workers of pytest-xdist", "on"))} == {"gw0", "gw1"}
