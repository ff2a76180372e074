"""Runs scenarios in forks of one process that has imported TensorFlow: the import takes longer than most scenarios.

Started as a script it is that process. It reads jobs, a line of JSON each, and answers each with the number of the fork
and then its exit status. What a scenario does to its process, such as patching or TensorFlow's modes, ends with it.
"""

import json
import os
import runpy
import select
import subprocess
import sys
import traceback

from processes import Finished, environment


class Forks(object):
    """The process to fork, started when it is first needed.

    Args:
        python: The interpreter.
        seconds: How long a script may take.
        **variables: Set in the environment, and unset if None.
    """

    def __init__(self, python=sys.executable, seconds=600, **variables):
        self._python, self._seconds, self._variables = python, seconds, variables
        self._process = None

    def run(self, folder, script, arguments):
        """Runs a script in a fork; returns `Finished`."""
        paths = [os.path.join(str(folder), name) for name in ("stdout.txt", "stderr.txt")]
        self._send({"folder": str(folder), "script": script, "arguments": arguments, "paths": paths})
        fork = int(self._line())
        try:
            status = int(self._line())
        except TimeoutError:
            os.kill(fork, 9)
            self._line()
            raise TimeoutError("%s %s took more than %d s" % (script, arguments, self._seconds))
        return Finished(status, *map(_text, paths))

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()

    def _send(self, job):
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, os.path.abspath(__file__)],
                env=environment(self._variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                universal_newlines=True,
            )
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def _line(self):
        if not select.select([self._process.stdout], [], [], self._seconds)[0]:
            raise TimeoutError()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The process with TensorFlow has ended: can TensorFlow be imported here?")
        return line


def _text(path):
    with open(path, errors="replace") as file:
        return file.read()


# --- the process ---------------------------------------------------------------------------------------------------


def _serve():
    import tensorflow as tf

    tf.keras.optimizers.SGD  # loads Keras, which some versions do late
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job = json.loads(line)
        fork = os.fork()
        if fork == 0:
            answers.close()
            _run(job)
        answers.write("%d\n" % fork)
        answers.flush()
        state = os.waitpid(fork, 0)[1]
        answers.write("%d\n" % (-os.WTERMSIG(state) if os.WIFSIGNALED(state) else os.WEXITSTATUS(state)))
        answers.flush()


def _run(job):
    """Runs the script of a job, as Python would, and ends the process."""
    status = 1
    try:
        os.chdir(job["folder"])
        for number, path in enumerate(job["paths"], 1):
            with open(path, "w") as file:
                os.dup2(file.fileno(), number)
        os.close(0)
        sys.argv = [job["script"]] + job["arguments"]
        sys.path[0] = os.path.dirname(job["script"])
        runpy.run_path(job["script"], run_name="__main__")
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if isinstance(ending.code, str):
            sys.stderr.write(ending.code + "\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
