"""The logger ``tfls_patch``, set up when it is needed: `logging` takes longer to import than this package."""


def get():
    """Returns the logger, silent unless the application configures logging."""
    import logging

    logger = logging.getLogger("tfls_patch")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
