"""Build script. The metadata is in setup.cfg; here is what cannot be said there.

The distribution ships ``tfls_patch.pth`` beside the package. Python runs its one line at start-up, which is how the
environment variable ``TFLS_PATCH`` works without a change to the user's script.
"""

import os
import re

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PTH = "tfls_patch.pth"


def read_version():
    """Read the version as text: importing the package here would arm it in the build."""
    with open(os.path.join(HERE, "tfls_patch", "_version.py")) as file:
        return re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE).group(1)


class BuildWithPth(build_py):
    """Build the package with the .pth file beside it, at the root of the wheel."""

    def run(self):
        build_py.run(self)
        folder = self.build_lib
        if getattr(self, "editable_mode", False):
            # Nothing is built for an editable install. What setuptools calls install_lib is the wheel in the making.
            folder = self.get_finalized_command("install").install_lib
        self.mkpath(folder)
        self.copy_file(os.path.join(HERE, PTH), os.path.join(folder, PTH), preserve_mode=False)

    def get_outputs(self, include_bytecode=True):
        outputs = build_py.get_outputs(self, include_bytecode)
        if not getattr(self, "editable_mode", False):
            outputs.append(os.path.join(self.build_lib, PTH))
        return outputs


commands = {"build_py": BuildWithPth}

try:
    from setuptools.command.develop import develop
except ImportError:  # setuptools means to remove it; editable installs have gone through build_py since setuptools 64
    pass
else:

    class DevelopWithPth(develop):
        """Put the .pth file into site-packages on an editable install by a setuptools older than 64."""

        def run(self):
            develop.run(self)
            folder = getattr(self, "install_dir", None)
            if not folder:
                return  # setuptools 80 and later hands over to pip, which comes back through build_py
            installed = os.path.join(folder, PTH)
            if not self.uninstall:
                self.copy_file(os.path.join(HERE, PTH), installed, preserve_mode=False)
            elif os.path.exists(installed):
                os.remove(installed)

    commands["develop"] = DevelopWithPth


setup(version=read_version(), cmdclass=commands)
