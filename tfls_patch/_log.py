"""The logger ``tfls_patch``, set up when it is needed: `logging` takes longer to import than this package."""

import sys


def info(message, *arguments):
    """Logs at level INFO, which the application has to ask for: while it has no `logging`, nobody can have."""
    if "logging" not in sys.modules:
        return
    import logging

    logger = logging.getLogger("tfls_patch")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.info(message, *arguments)
