"""Command line: ``python -m tfls_patch {status,doctor,run,diagnose,demo}``, also installed as ``tfls-patch``.

Exit status: 0 all is well, 1 not patched (``status``, ``doctor``) or an expectation failed (``demo``), 2 misuse.
``run`` exits as the script that it runs.
"""

import argparse
import importlib
import json
import os
import sys

import tfls_patch
from tfls_patch import _rules, _run, _settings
from tfls_patch._settings import Rule

_RUN_USAGE = (
    "[--min-scale X] [--max-scale Y] [--regrow-steps N] [--at-floor POLICY] [--patience N]\n"
    "           (script.py | -m module) [argument ...]"
)
#: Options of ``run`` and ``diagnose``, each with a value.
_RUN_OPTIONS = ["--" + name.replace("_", "-") for name in Rule._fields]


def main(arguments=None):
    """Runs one command; returns the exit status."""
    parser = _parser()
    arguments, command = _split_run(sys.argv[1:] if arguments is None else list(arguments))
    options = parser.parse_args(arguments, argparse.Namespace(run=command))
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    return options.handle(options, parser)


def _parser():
    parser = argparse.ArgumentParser(prog="tfls_patch", description=tfls_patch.__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version="tfls_patch " + tfls_patch.__version__)
    commands = parser.add_subparsers(dest="command", metavar="{status,doctor,run,diagnose,demo}")
    _add_status(commands)
    _add_doctor(commands)
    _add_run(commands)
    _add_diagnose(commands)
    _add_demo(commands)
    return parser


def _add_status(commands):
    command = commands.add_parser("status", help="what was found here, what is patched, and why")
    command.add_argument("--json", action="store_true", help="the same for programs")
    command.set_defaults(handle=_status)


def _add_doctor(commands):
    from tfls_patch import doctor

    command = commands.add_parser("doctor", help="check the whole chain, prove it with overflows, and say what to do")
    doctor.add_arguments(command)
    command.set_defaults(handle=lambda options, parser: doctor.run(options))


def _add_run(commands):
    command = commands.add_parser(
        "run", help="run an unmodified training script patched", usage="%(prog)s " + _RUN_USAGE
    )
    _add_run_options(command)
    command.set_defaults(handle=_run_command)


def _add_diagnose(commands):
    command = commands.add_parser(
        "diagnose",
        help="run a training script until it is stuck at the floor, and say why",
        usage="%(prog)s " + _RUN_USAGE,
    )
    _add_run_options(command)
    command.set_defaults(handle=_diagnose_command, at_floor="raise", patience=20)


def _add_run_options(command):
    command.add_argument("--min-scale", type=float, metavar="X", help="the floor (default: 2**-14)")
    command.add_argument("--max-scale", type=float, metavar="Y", help="the ceiling (default: 2**126)")
    command.add_argument("--regrow-steps", type=int, metavar="N", help="growth interval below 1 (default: the usual)")
    command.add_argument("--at-floor", metavar="POLICY", help="skip, warn or raise (default: skip; diagnose: raise)")
    command.add_argument(
        "--patience", type=int, metavar="N", help="steps in a row at the floor before it (default: 100; diagnose: 20)"
    )


def _add_demo(commands):
    from tfls_patch import demo

    command = commands.add_parser("demo", help="train stock and patched side by side, and draw what happens")
    demo.add_arguments(command)
    command.set_defaults(handle=lambda options, parser: demo.run(options))


def _status(options, parser):
    """Imports what is installed, so that the answer is what a program would get, not a guess."""
    for package in ("tensorflow", "keras", "tf_keras"):
        _import_quietly(package)
    status = tfls_patch.status()
    print(json.dumps(status.to_dict(), indent=2) if options.json else status)
    refused = [target for target in status.targets if target.state == "refused"]
    return 0 if status.patched and not refused else 1


def _import_quietly(package):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        module = importlib.import_module(package)
        getattr(module, "keras", None)  # loads tf.keras where it is lazy
    except ImportError as error:
        if error.name != package:  # it is installed, and broken: that is news
            sys.stderr.write("tfls_patch: import %s: %s: %s\n" % (package, type(error).__name__, error))
    except Exception as error:
        sys.stderr.write("tfls_patch: import %s: %s: %s\n" % (package, type(error).__name__, error))


def _run_command(options, parser):
    command, is_module = _command_of(options, parser)
    _apply_options(options, parser)
    return (_run.module if is_module else _run.script)(command[0], command[1:])


def _command_of(options, parser):
    """Returns the script or module with its arguments, and whether it is a module."""
    command, name = options.run, options.command
    is_module = command[:1] == ["-m"]
    command = command[1:] if command[:1] in (["-m"], ["--"]) else command
    if not command:
        parser.error("%s: name a script, or -m and a module" % name)
    if command[0].startswith("-"):
        parser.error("%s: no such option: %s" % (name, command[0]))
    return command, is_module


def _apply_options(options, parser):
    """Patches as the options say, for this process and for its children."""
    try:
        tfls_patch.apply(**{name: getattr(options, name) for name in Rule._fields})
    except ValueError as error:
        parser.error("%s: %s" % (options.command, error))
    except tfls_patch.UnsupportedVersionError as error:
        sys.stderr.write("tfls_patch: %s\n" % error)
    _settings.export(_rules.settings())


def _diagnose_command(options, parser):
    """Exits as the script, or with 1 if it got stuck."""
    from tfls_patch import _at_floor, _diagnosis

    command, is_module = _command_of(options, parser)  # misuse ends here, without a report
    _apply_options(options, parser)
    diagnosis = _diagnosis.start()
    status = 0
    try:
        status = (_run.module if is_module else _run.script)(command[0], command[1:])
    except SystemExit as ending:
        if ending.code not in (None, 0):
            raise
    except Exception as error:
        if _at_floor.OPENING not in str(error):
            raise
    finally:
        sys.stdout.flush()
        print(diagnosis, flush=True)
    return status or int(diagnosis.is_stuck())


def _split_run(arguments):
    """Splits ``run --min-scale 1e-4 train.py --rate 3`` before ``train.py``, and ``diagnose`` likewise.

    What follows is none of our business.

    argparse cannot be told so: its remainder ends at ``--`` and begins before unknown options.
    """
    if arguments[:1] not in (["run"], ["diagnose"]):
        return arguments, []
    end = 1
    while end < len(arguments) and arguments[end].startswith("--") and arguments[end] != "--":
        end += 2 if arguments[end] in _RUN_OPTIONS else 1
    if arguments[end : end + 1] == ["-h"]:
        end += 1
    return arguments[:end], arguments[end:]


if __name__ == "__main__":
    sys.exit(main())
