"""No AutoGraph, deprecation or other warning comes from the patch: usage ``quiet.py stock|patched``, prints what is said."""

import logging
import sys
import warnings

warnings.simplefilter("always")

import surfaces
from surfaces import tf

if sys.argv[1] == "patched":
    import tfls_patch

surfaces.tf1.enable_eager_execution()
said = []


class Listener(logging.Handler):
    def emit(self, record):
        said.append("log: " + record.getMessage().splitlines()[0])


logger = logging.getLogger("tensorflow")
logger.addHandler(Listener())
logger.setLevel(logging.WARNING)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name, make in sorted(surfaces.surfaces("eager").items()):
        surface = make(4.0, 2)
        for m in (1.0, 1.0, float("inf"), 1.0):
            surface.step(m)
said.extend("warning: " + str(each.message).splitlines()[0] for each in caught)
# Object addresses and retracing counts differ from run to run.
for text in sorted({text.split(" at 0x")[0] for text in said if "retracing" not in text}):
    print("SAID " + text)
print("OK")
