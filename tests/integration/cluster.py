"""Runs a script in several processes on this machine, as the workers of one job. None of them outlives the call."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

SCENARIOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")

#: Seconds after which the workers of one job are killed: more than any job took on two busy cores.
TIMEOUT = 120

#: What some TensorFlow (seen with 2.8, not patched) says when it aborts at exit, because it left a thread running.
ABORT_AT_EXIT = "terminate called without an active exception\n"


class Worker(object):
    """What one process left behind; its return code is that of SIGKILL if time was up."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr

    def report(self):
        """The last line, which is JSON if the worker came to its end; None otherwise."""
        lines = self.stdout.strip().splitlines()
        is_complete = self._has_ended() and lines and lines[-1].startswith("{")
        return json.loads(lines[-1]) if is_complete else None

    def _has_ended(self):
        is_aborted_at_exit = self.returncode == -signal.SIGABRT and self.stderr.endswith(ABORT_AT_EXIT)
        return self.returncode == 0 or is_aborted_at_exit


def train(count, folder, prefix=(), environments=None, timeout=TIMEOUT, **arguments):
    """Runs ``scenarios/worker.py`` with these arguments in `count` workers; what is in `prefix` comes before it."""
    command = list(prefix) + [os.path.join(SCENARIOS, "worker.py"), json.dumps(arguments)]
    return run(command, folder, environments or [{}] * count, timeout, tf_config)


def reports(workers):
    """The reports of all workers; fails if one has none."""
    found = [worker.report() for worker in workers]
    assert all(found), [(worker.returncode, worker.stdout[-500:], worker.stderr[-3000:]) for worker in workers]
    return found


def run(arguments, folder, environments, timeout, config=lambda ports, index: {}):
    """Runs one process per environment, and kills what is left of them when time is up.

    Args:
        arguments: What follows the interpreter.
        folder: Where they run.
        environments: A list of variables for each process.
        timeout: Seconds for all of them together.
        config: A function of free ports, one for each process, and the index that gives further variables.

    Returns:
        A list of `Worker`.
    """
    ports = free_ports(len(environments))
    processes, files = [], []
    try:
        for index, variables in enumerate(environments):
            out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            files.append((out, err))
            environ = _environment(dict(config(ports, index), **variables))
            processes.append(
                # In a group of its own, so that what it starts is killed with it.
                subprocess.Popen(
                    [sys.executable] + list(arguments),
                    env=environ,
                    cwd=str(folder),
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            )
        _wait(processes, timeout)
    finally:
        for process in processes:
            _kill(process)
    return [Worker(process.returncode, _read(out), _read(err)) for process, (out, err) in zip(processes, files)]


def tf_config(ports, index):
    """The variable by which TensorFlow's workers find each other."""
    cluster = {"worker": ["127.0.0.1:%d" % port for port in ports]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}


def free_ports(count):
    """Ports that nobody listens on now. Another process may take one before we do, but it would have to hurry."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _environment(variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TFLS_PATCH")}
    environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2", PYTHONWARNINGS="ignore")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        environ.pop(name, None)  # gRPC would ask them for 127.0.0.1
    environ.update(variables)
    return environ


def _wait(processes, timeout):
    """Until all have ended, or time is up, or one has died and left the others a while to notice."""
    end = time.time() + timeout
    while time.time() < end and any(process.poll() is None for process in processes):
        if any(process.poll() not in (None, 0) for process in processes):
            end = min(end, time.time() + 20)
        time.sleep(0.1)


def _kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:  # it has ended, and so has all of its group
        pass
    process.wait()


def _read(file):
    file.seek(0)
    text = file.read()
    file.close()
    return text
