"""Carries out the lines of docs/containers.md without a container engine.

An `Image` reads a Dockerfile and runs its lines in a tree: a `Tree`, which any machine can make, or a `BareRoot`, an
operating system of its own behind ``chroot``. Both start every command with an empty environment.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess

from environments import ROOT, interpreter, run

PAGE = ROOT / "docs" / "containers.md"
USER = 65534


def blocks(heading, language):
    """Return the fenced blocks of that language under a heading of the page, up to the next heading."""
    section = re.split(r"(?m)^#+ %s$" % re.escape(heading), PAGE.read_text(encoding="utf-8"))[1]
    section = re.split(r"(?m)^#+ ", re.sub(r"(?ms)^```.*?^```$", lambda m: m.group().replace("\n#", "\n\0#"), section))[
        0
    ]
    return [text.replace("\0", "") for text in re.findall(r"(?ms)^```%s\n(.*?)^```$" % language, section)]


class Image:
    """What a Dockerfile makes of a tree, and how its command is started."""

    def __init__(self, tree, context):
        self.tree = tree
        self.context = context
        self.env = {}
        self.folder = "/"
        self.user = None
        self.command = None

    def build(self, dockerfile, **arguments):
        """Carry out the lines; one that this does not know is an error.

        Args:
            dockerfile: The text.
            **arguments: Variables that RUN sees and the container does not, like those of ``--build-arg``.
        """
        for line in dockerfile.replace("\\\n", " ").splitlines():
            name, _, rest = line.partition(" ")
            if name == "FROM":
                continue  # the tree is there instead
            elif name == "RUN":
                self.run(self._words(rest), arguments)
            elif name == "ENV":
                self.env.update(word.split("=", 1) for word in shlex.split(rest))
            elif name == "WORKDIR":
                self.folder = rest
                self.tree.path(rest).mkdir(parents=True, exist_ok=True)
            elif name == "COPY":
                self._copy(*rest.split())
            elif name == "USER":
                self.user = rest
            elif name == "CMD":
                self.command = json.loads(rest)
            else:
                raise AssertionError("a line that the tests cannot carry out: " + line)
        return self

    @staticmethod
    def _words(rest):
        return json.loads(rest) if rest.startswith("[") else ["/bin/sh", "-c", rest]

    def _copy(self, source, target):
        place = self.tree.path(os.path.join(self.folder, target))
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(self.context / source), str(place / source))

    def run(self, command, env=(), **options):
        """Run a command in the container, and return what it printed; fail if it fails."""
        done = self.start(command, env, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, command=None, env=(), **options):
        """Run a command, or CMD, with more variables than those of the image; return it when it has ended."""
        return self.tree.start(command or self.command, dict(self.env, **dict(env)), self.folder, self.user, **options)


def _started(command, **options):
    return subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **options,
    )


class Tree:
    """A folder with a Python of its own, in which `/app`, `/opt` and `/wheels` stand for folders of the tree."""

    def __init__(self, folder, version):
        self.root = folder
        self.version = version
        self.site_packages = self.path("/usr/local/lib/python%s/site-packages" % version)
        for name in ("tmp", "home"):
            (folder / name).mkdir(parents=True)

    def add_python(self, *options):
        run(interpreter(self.version), "-m", "venv", *options, self.path("/usr/local"), env={"PATH": os.defpath})

    def path(self, inside):
        return self.root / inside.lstrip("/")

    def _translated(self, text):
        return re.sub(r"(?<![\w./-])/(?=(app|opt|wheels)\b)", "%s/" % self.root, text)

    def start(self, command, env, folder, user, read_only=False):
        """Run a command with nothing but `env`; as a user without privileges if there is one."""
        env = {name: self._translated(value) for name, value in env.items()}
        env.setdefault("HOME", str(self.path("/home")))
        env.update(PATH="%s:/usr/bin:/bin" % self.path("/usr/local/bin"), TMPDIR=str(self.path("/tmp")))
        command = (self.without_privileges() if user else []) + [self._translated(part) for part in command]
        with self._read_only() if read_only else contextlib.nullcontext():
            return _started(command, env=env, cwd=str(self.path(folder)))

    @staticmethod
    def without_privileges():
        """Return the words in front of a command that take the privileges of root from it; none if there are none.

        In a user namespace it has another user's number too. Where these are not allowed, root without capabilities.
        """
        if os.getuid() != 0:
            return []
        said = []
        for prefix in (["unshare", "--user"], ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]):
            done = _started(prefix + ["true"])
            if done.returncode == 0:
                return prefix
            said.append(done.stderr)
        raise AssertionError("root's privileges cannot be dropped here: %s" % said)

    @contextlib.contextmanager
    def _read_only(self):
        """Leave nothing in the tree that can be written to but /tmp, for a while, and make sure of it."""
        changed = {}
        for folder, _, files in os.walk(str(self.root)):
            for path in [folder] + [os.path.join(folder, name) for name in files]:
                if path != str(self.path("/tmp")) and not os.path.islink(path):
                    changed[path] = os.stat(path).st_mode
        try:
            for path, mode in changed.items():
                os.chmod(path, mode & ~0o222)
            for place in (self.root, self.path("/app"), self.site_packages, self.site_packages / "tfls_patch"):
                self._assert_not_writable("touch", place / "written")
            self._assert_not_writable("tee", "-a", self.path("/app/train.py"))
            yield
        finally:
            for path, mode in changed.items():
                os.chmod(path, mode)

    def _assert_not_writable(self, *command):
        done = _started(self.without_privileges() + list(command))
        assert done.returncode != 0 and "ermission denied" in done.stderr, (command, done.stderr)


class BareRoot:
    """A copy of a root file system, entered by ``chroot``, which takes root."""

    def __init__(self, folder, original):
        self.root = folder
        run("cp", "-a", "--reflink=auto", original, folder)
        said = self._chrooted(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], {}).stdout
        self.version = said.strip()
        self.site_packages = self.path("/usr/local/lib/python%s/site-packages" % self.version)

    def add_python(self, *options):
        done = self._chrooted(["python3", "-m", "venv", *options, "/usr/local"], {})
        assert done.returncode == 0, done.stderr

    def path(self, inside):
        return self.root / inside.lstrip("/")

    def start(self, command, env, folder, user, read_only=False):
        """Run a command with nothing but `env`, on a read-only mount if asked to."""
        return self._chrooted(command, env, folder, user, read_only)

    def _chrooted(self, command, env, folder="/", user=None, read_only=False):
        # In a namespace of its own, so that the mounts end with the command.
        script = 'mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && '
        if read_only:
            script += 'mount -t tmpfs tmpfs "$0/tmp" && mount -o remount,bind,ro "$0" && '
            script += 'for at in "" /app /usr/local; do ! touch "$0$at/written" 2>/dev/null || exit 99; done && '
        script += 'cd "$0" && root=$0 && user=$1 && shift && exec chroot ${user:+--userspec=$user} "$root" "$@"'
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', folder] + list(command)
        env = dict({"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, **env)
        done = _started(["unshare", "--mount", "sh", "-c", script, self.root, user or ""] + inside, env=env)
        assert done.returncode != 99, "the root can be written to"
        return done
