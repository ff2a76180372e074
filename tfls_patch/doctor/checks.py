"""The checks of the doctor, one function for each link of the chain; each gives one `Finding` or several."""

import importlib
import os
import subprocess
import sys

import tfls_patch
from tfls_patch import _report, _rules, _settings
from tfls_patch._registry import LEAVES, TOP_LEVEL, supported, version_text
from tfls_patch.doctor import _distributions
from tfls_patch.doctor._finding import fail, note, ok, warn

PTH = "tfls_patch.pth"
PTH_LINE = 'import os; os.environ.get("TFLS_PATCH") and __import__("tfls_patch")'

#: What this package needs itself; the same as in setup.cfg.
REQUIREMENTS = {"wrapt": ">=1.11.1", "packaging": ">=20.0"}

#: Variables of others that decide whether there is a loss scale, and which.
VARIABLES_OF_OTHERS = (
    "TF_USE_LEGACY_KERAS",
    "KERAS_BACKEND",
    "TF_ENABLE_AUTO_MIXED_PRECISION",
    "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE",
    "TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING",
)

WITHOUT_THE_FILE = "put `import tfls_patch` into the script, or start it with `python -m tfls_patch run`"


# --- the interpreter and its start -----------------------------------------------------------------------------------


def interpreter():
    """Which Python this is."""
    version = "%s %d.%d.%d" % ((sys.implementation.name,) + tuple(sys.version_info[:3]))
    found = "%s, %s" % (version, sys.executable or "embedded")
    if sys.implementation.name != "cpython":
        return [warn("interpreter", found, "only CPython is tested")]
    return [ok("interpreter", found)]


def variables():
    """The environment variables as this process sees them."""
    complaints = _settings.Settings.from_environment()[1]
    seen = ["%s=%s" % (name, _settings.shown(os.environ[name])) for name in _settings.VARIABLES if name in os.environ]
    found = ", ".join(seen) or "none of %s is set" % ", ".join(_settings.VARIABLES)
    word = _settings.switch()
    if word is False:
        yield fail("variables", found, "the kill switch is on: unset TFLS_PATCH, or set it to 1")
    elif isinstance(word, str):
        yield fail("variables", found, "TFLS_PATCH must be 1 or 0 (or true, false, yes, no, on, off): set it to 1")
    elif word is None:
        yield note("variables", found, "TFLS_PATCH=1 patches every program that is started here, unchanged")
    else:
        yield ok("variables", found)
    for complaint in complaints:
        yield warn("variables", complaint, "correct the variable, or unset it")


def start_up_file():
    """Whether ``TFLS_PATCH=1`` alone arms an interpreter: tried with a real one."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(tfls_patch.__file__)))
    folders = _site_folders()
    there = [folder for folder in folders if os.path.isfile(os.path.join(folder, PTH))]
    if _starts_armed():
        return [ok("start-up file", "a new interpreter is armed by TFLS_PATCH=1 (%s)" % (there or [home])[0])]
    found, advice = _why_not_armed(home, folders, there)
    # Without the variable the file is not needed.
    return [(fail if _settings.switch() is True else note)("start-up file", found, advice)]


def _site_folders():
    """The folders whose .pth files this interpreter reads."""
    if sys.flags.no_site:
        return []
    import site

    folders = list(getattr(site, "getsitepackages", list)())  # an old virtualenv's own site has it not
    if getattr(site, "ENABLE_USER_SITE", False):
        folders.append(site.getusersitepackages())
    return [folder for folder in folders if os.path.isdir(folder)]


def _starts_armed():
    """Starts an interpreter like this one with ``TFLS_PATCH=1`` and asks whether the package was imported."""
    flags = sys.flags
    options = [
        (flags.no_site, "-S"),
        (flags.isolated, "-I"),
        (flags.ignore_environment, "-E"),
        (flags.no_user_site, "-s"),
    ]
    command = [sys.executable] + [option for is_set, option in options if is_set]
    command += ["-c", "import sys; sys.stdout.write(str('tfls_patch' in sys.modules))"]
    try:
        said = subprocess.check_output(command, env=dict(os.environ, TFLS_PATCH="1"), stderr=subprocess.DEVNULL)
    except (OSError, ValueError, subprocess.SubprocessError):  # embedded, or not allowed to start processes
        return False
    return said.strip().endswith(b"True")


def _why_not_armed(home, folders, there):
    if sys.flags.no_site:
        return "python -S reads no .pth file", "start Python without -S, or " + WITHOUT_THE_FILE
    if not there and home.endswith((".zip", ".pyz", ".pex")):
        return "the package is in the archive %s, where no .pth file is read" % home, WITHOUT_THE_FILE
    if not there and os.path.isfile(os.path.join(home, PTH)):
        return (
            "%s is in %s, which is no site directory of this interpreter (PYTHONPATH, --target)" % (PTH, home),
            "install it with pip into one of %s, or %s" % (", ".join(folders), WITHOUT_THE_FILE),
        )
    if not there:
        return (
            "no %s in %s" % (PTH, ", ".join(folders) or "any site directory"),
            "install again: pip install --force-reinstall --no-deps tfls-patch; or " + WITHOUT_THE_FILE,
        )
    with open(os.path.join(there[0], PTH), errors="replace") as file:
        line = file.read().strip()
    if line != PTH_LINE:
        return "%s was changed" % os.path.join(there[0], PTH), "install again: pip install --force-reinstall tfls-patch"
    return (
        "%s is in %s, but a new interpreter is not armed" % (PTH, there[0]),
        "start `TFLS_PATCH=1 %s -c 1` and read what it prints" % (sys.executable or "python"),
    )


def dependencies():
    """wrapt and packaging, against what this package asks of them."""
    for name, specifiers in sorted(REQUIREMENTS.items()):
        try:
            module = importlib.import_module(name)
        except Exception as error:
            yield fail(name, _error(error), "pip install %r" % (name + specifiers))
            continue
        version = _distributions.version_of(name) or str(getattr(module, "__version__", ""))
        found = "%s in %s" % (version, os.path.dirname(module.__file__))
        if name == "wrapt" and version and not _distributions.satisfies(version, specifiers):
            yield warn(name, found, "pip install %r; older ones are not tested" % (name + specifiers))
        else:
            yield ok(name, found)


# --- TensorFlow and Keras --------------------------------------------------------------------------------------------


def tensorflow():
    """The TensorFlow that is installed, imported."""
    providers = _distributions.providers("tensorflow")
    names = ["%s %s" % (each.name, each.version) for each in providers]
    error = _import("tensorflow")
    if isinstance(error, ImportError) and getattr(error, "name", None) == "tensorflow":
        if _import("keras") is None:
            return [note("tensorflow", "not installed; Keras runs on another backend")]
        return [fail("tensorflow", "not installed", "pip install tensorflow, or tensorflow-cpu")]
    if error is not None:
        advice = "TensorFlow itself does not start: see `python -c 'import tensorflow'` without tfls_patch"
        if isinstance(error, tfls_patch.UnsupportedVersionError):
            advice = error.advice
        return [fail("tensorflow", _error(error), advice)]
    found = "%s in %s, from %s" % (
        version_text("tensorflow"),
        os.path.dirname(sys.modules["tensorflow"].__file__),
        " and ".join(names) or "no distribution that pip knows of",
    )
    if len({each.version for each in providers}) > 1:
        return [warn("tensorflow", found, "they overwrite each other's files: uninstall all, and install one")]
    return [ok("tensorflow", found)]


def keras():
    """The Keras packages, and which of them ``tf.keras`` is."""
    for name in ("keras", "tf_keras"):
        error = _import(name)
        if error is None:
            folder = os.path.dirname(sys.modules[name].__file__ or "")
            yield ok(name, "%s in %s" % (version_text(name), folder))
        elif not (isinstance(error, ImportError) and getattr(error, "name", None) == name):
            yield warn(name, _error(error), "only what does not use %s is patched" % name)
    if sys.modules.get("tensorflow") is not None:
        yield _tf_keras()


def _tf_keras():
    try:
        home = sys.modules["tensorflow"].keras.Model.__module__.split(".")[0]
    except Exception as error:
        return warn("tf.keras", _error(error), "tf.keras does not work here; what does not use it does")
    return ok("tf.keras", "is the package %s" % ("tensorflow.python.keras" if home.startswith("tensorflow") else home))


def pins():
    """wrapt and packaging against TensorFlow's own pins: they may have been moved since."""
    for provider in _distributions.providers("tensorflow"):
        for name in sorted(REQUIREMENTS):
            specifiers, version = _distributions.wanted(provider, name), _distributions.version_of(name)
            if specifiers is None or version is None:
                continue
            found = "%s %s, and %s asks for %s" % (
                name,
                version,
                provider.name,
                name + (specifiers or " of any version"),
            )
            if _distributions.satisfies(version, specifiers):
                yield ok("pins", found)
            else:
                yield warn("pins", found, "pip install %r; tfls_patch works with it too" % (name + specifiers))


def _import(name):
    """Imports a package, and returns what went wrong, or None."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        importlib.import_module(name)
    except Exception as error:
        return error
    return None


# --- the patch -------------------------------------------------------------------------------------------------------


def targets():
    """What is patched. Leaf modules that TensorFlow loads late are loaded first."""
    for leaf, package in LEAVES.items():
        if leaf.split(".")[0] in sys.modules and leaf not in sys.modules:
            _import(leaf)
    status = tfls_patch.status()
    by_state = {}
    for target in status.targets:
        by_state.setdefault(target.state, []).append(target)
    for reason in sorted({target.reason for target in by_state.get(_report.REFUSED, ())}):
        yield fail("targets", reason, "see which it is in `python -m tfls_patch status`")
    patched = by_state.get(_report.PATCHED, ())
    if patched:
        newer = any("newer" in target.reason for target in patched)
        found = "%d functions are patched, in %d modules" % (len(patched), len({_home(each.name) for each in patched}))
        yield warn("targets", found, _newer()) if newer else ok("targets", found)
    elif not by_state.get(_report.REFUSED):
        yield fail("targets", *_why_nothing(status))


def _home(name):
    return next((leaf for leaf in LEAVES if name.startswith(leaf + ".")), name)


def _newer():
    return "this is newer than what was tested (%s): look for a newer tfls-patch" % "; ".join(
        supported(package) for package in reversed(TOP_LEVEL)
    )


def _why_nothing(status):
    if not status.enabled:
        return "nothing is patched: %s" % status.switch, "set TFLS_PATCH=1, or unset it"
    advice = "install one of these: %s" % "; ".join(map(supported, TOP_LEVEL))
    return "nothing is patched: there is no TensorFlow and no Keras 3 that can be imported", advice


def other_patchers():
    """Whether something else has replaced one of our functions, or inherits around them."""
    status = tfls_patch.status()
    displaced = [each for each in status.targets if each.state == _report.REFUSED and "replaced" in each.reason]
    wrapped = [each for each in status.targets if each.state == _report.REFUSED and "wrapped" in each.reason]
    for target in displaced + wrapped:
        yield fail("patchers", "%s: %s" % (target.name, target.reason), "remove one of the two")
    entries = tfls_patch._api.PATCHER.snapshot().entries
    overrides = sorted(set(_overrides(entries)))
    for name in overrides:
        yield warn("patchers", "%s overrides a patched method" % name, "it keeps its own code; let it call super()")
    if not (displaced or wrapped or overrides):
        yield ok("patchers", "nothing else replaces or overrides these functions")


def _overrides(entries):
    """Subclasses outside of TensorFlow and Keras with a method of their own in place of a patched one."""
    for entry in entries:
        pending = list(entry.owner.__subclasses__()) if isinstance(entry.owner, type) else []
        while pending:
            cls = pending.pop()
            pending.extend(cls.__subclasses__())
            if entry.name in vars(cls) and cls.__module__.split(".")[0] not in TOP_LEVEL:
                yield "%s.%s.%s" % (cls.__module__, cls.__name__, entry.name)


def bounds():
    """The rule in force, and where each part of it came from."""
    settings = _rules.settings()
    for name, setting in settings._asdict().items():
        found = "%s, from the %s" % (_report.setting_text(setting), setting.source)
        if name == "min_scale" and setting.value >= 1:
            yield warn(name, found, "the floor is not below TensorFlow's own: a stuck training stays stuck")
        elif name == "min_scale" and setting.value < 2.0**-24:
            yield note(name, found, "float16 losses and variables need 2**-24 or more; float32 ones do not")
        elif name == "at_floor" and setting.value == _settings.SKIP:
            yield note(name, found, "a training that is stuck at the floor is so without a word; warn says so")
        else:
            yield ok(name, found)


def precision():
    """What decides whether a program here has a loss scale at all."""
    seen = ["%s=%s" % (name, _settings.shown(os.environ[name])) for name in VARIABLES_OF_OTHERS if name in os.environ]
    found = "the policy of a new process is %s" % (_policy() or "float32")
    if seen:
        found += "; " + ", ".join(seen)
    return [
        note("precision", found, "there is a loss scale under mixed_float16, or where the program makes one itself")
    ]


def _policy():
    """The name of the global precision policy of ``tf.keras``, or of Keras 3 without TensorFlow."""
    home = getattr(sys.modules.get("tensorflow"), "keras", None) or sys.modules.get("keras")
    try:
        mixed_precision = home.mixed_precision
        read = getattr(mixed_precision, "global_policy", None) or getattr(mixed_precision, "dtype_policy", None)
        return (read or mixed_precision.experimental.global_policy)().name
    except Exception:  # before TensorFlow 2.1 there is none
        return None


def who_is_patched():
    """One sentence: which programs of this environment are patched."""
    if _settings.switch() is True:
        return "Every program that is started here is patched, because TFLS_PATCH=1."
    return "Programs that import tfls_patch are patched. TFLS_PATCH is not set, so others are not."


def _error(error):
    return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300])
