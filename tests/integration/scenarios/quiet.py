"""No AutoGraph, deprecation or other warning comes from the patch: what is said patched, stock said before."""

import logging
import warnings

warnings.simplefilter("always")

import surfaces


class Listener(logging.Handler):
    def __init__(self):
        super(Listener, self).__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append("log: " + record.getMessage())


def said_while_training():
    """Trains every surface and returns what was logged or warned, without what differs from run to run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del listener.said[:]
        for name, make in sorted(surfaces.surfaces("eager").items()):
            surface = make(4.0, 2)
            for m in (1.0, 1.0, float("inf"), 1.0):
                surface.step(m)
    texts = listener.said + ["warning: " + str(each.message) for each in caught]
    return {text.splitlines()[0].split(" at 0x")[0] for text in texts if "retracing" not in text}


surfaces.start("eager")
listener = Listener()
logger = logging.getLogger("tensorflow")
logger.addHandler(listener)
logger.setLevel(logging.WARNING)
stock = said_while_training()

import tfls_patch

assert tfls_patch.apply().patched
more = said_while_training() - stock
if more:
    surfaces.fail("said only when patched: %s" % sorted(more))
print("OK, and stock said %d things" % len(stock))
