"""Run the demonstration of the hourglass network with three seeds, and write docs/hourglass.md and docs/hourglass.png.

    nox -s "benchmarks(script='hourglass')"
    ... -- --quick                     one seed and few steps; writes nothing unless --out

It fails if something is not seen that is to be expected, and then writes nothing. No times are measured.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

import common  # noqa: E402  (beside this file)

#: Which TensorFlow the demonstration used, as a script of its own: it must not be imported here.
VERSIONS = """
import json, platform, sys
sys.path.insert(0, sys.argv[1])
import common, numpy
import tensorflow as tf
print(json.dumps({"Python": platform.python_version(), "NumPy": numpy.__version__, "device": common.device(tf)}))
"""

TEXT = """\
<!-- Written by benchmarks/hourglass.py. Do not edit: run it again. -->

# An hourglass network with a focal loss

A training that was reported to need a loss scale of 0.01 to 0.06 in its first steps, and 64 in the end: an hourglass
network with a lot of 3x3 convolutions and a sigmoid at its output learns to find areas of interest in wide images, with
a focal loss. In stock float16 it did not learn at all; with the floor removed it reached the validation loss of
float32. Here is a small one. It runs wherever TensorFlow does: `python -m tfls_patch demo hourglass`.

![Loss and loss scale per step](hourglass.png)

```text
{printed}
```

- **Images** are 32 x 16, and noisy. Discs are areas of interest, bars of the same brightness are not. 2,000 of them
  are to train on, 500 to validate.
- **The network** halves the image twice and doubles it twice; six convolutions with up to 8 channels. It computes in
  float16; the sigmoid and the loss are float32, so the forward pass is finite throughout, which is checked.
- **The focal loss** is summed over the pixels. It is multiplied by {factor:,.0f}, so that a pixel weighs what it would
  in a sum over 16 images of 1024 x 512. The 16 was chosen so that the scale comes down to where it was reported; with
  one image instead of 16 it is 16 times higher. At the initial weights every batch overflows at a scale of 1.
- **The scale comes back** as gradients get smaller, but not to 64: this training is short, and its loss does not get as
  small as that of a real one.
- **Floor removed by hand** is the rule of stock without its maximum. Here it does what the patch does; it has no bounds
  when NaN batches come. **Subclass** is a `LossScaleOptimizer` with a loss scale that is 1024 times lower than the one
  that its base class keeps.
- The scale doubles after {growth} good steps instead of 2000, because the training is so short.

{software}

The digits of other machines and versions differ a little. In TensorFlow 1.14 to 2.15, tf_keras and tf.compat.v1 there
is the first experiment, in Keras 3 the second.
"""

SOFTWARE = """
Python {Python}, TensorFlow {tensorflow}, Keras {keras}, NumPy {NumPy}, tfls_patch {tfls_patch}; {machine}; {system};
computing on: {device}. It took {seconds:.0f} s.
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed and few steps")
    parser.add_argument("--out", type=Path, help="the folder to write to (default: docs; none if --quick)")
    options = parser.parse_args(arguments)
    out = options.out or (None if options.quick else ROOT / "docs")
    environ = {name: text for name, text in os.environ.items() if not name.startswith("TFLS_PATCH")}
    begin = time.time()
    with tempfile.TemporaryDirectory(prefix="hourglass_") as folder:
        command = [sys.executable, "-m", "tfls_patch", "demo", "hourglass", "--out", ".", "--json", "measured.json"]
        command += ["--seeds", "1", "--steps", "200"] if options.quick else ["--seeds", "3"]
        environ["PYTHONPATH"] = str(ROOT)
        done = subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True)
        print(done.stdout)
        if done.returncode != 0:
            return done.returncode
        seconds = time.time() - begin
        if out:
            measured = json.loads((Path(folder) / "measured.json").read_text())
            (out / "hourglass.md").write_text(_page(done.stdout, measured, environ, seconds), encoding="utf-8")
            shutil.copy(Path(folder) / "tfls_patch_hourglass.png", out / "hourglass.png")
            print("wrote hourglass.md and hourglass.png to %s" % out)
    return 0


def _page(printed, measured, environ, seconds):
    ask = [sys.executable, "-c", VERSIONS, str(ROOT / "benchmarks")]
    versions = json.loads(subprocess.check_output(ask, env=environ, text=True).splitlines()[-1])
    with_floor = measured["worlds"][0]
    software = SOFTWARE.format(
        tensorflow=measured["tensorflow"],
        keras=measured["keras"],
        tfls_patch=measured["tfls_patch"],
        machine=common.machine(),
        system=common.system(),
        seconds=seconds,
        **versions
    )
    return TEXT.format(
        printed=printed.strip().rsplit("\n\n", 1)[0],
        factor=with_floor["loss_factor"],
        growth=with_floor["growth_steps"],
        software=common.fill(software),
    )


if __name__ == "__main__":
    sys.exit(main())
