"""What one update of the loss scale costs, patched against stock: writes docs/update-cost.md.

    nox -s "benchmarks(script='update')"
    python3 benchmarks/update.py --rounds 5 --out FILE    quicker, and the page elsewhere

The same graph loop of updates is traced in one process by stock and by the patch, and by stock a second time, which
shows what a difference means. The loops take turns, in a new order each round.
"""

import argparse
import collections
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "integration" / "scenarios")]
for _name in [name for name in os.environ if name.startswith("TFLS_PATCH")]:
    del os.environ[_name]

import surfaces  # noqa: E402
from surfaces import tf  # noqa: E402

UPDATES, SEED = 5000, 1
#: Kind of run -> how many of a hundred steps overflow.
SCRIPTS = {"no step overflows": 0, "one step in 20 overflows": 5}

TEXT = """\
<!-- Written by benchmarks/update.py. Do not edit: run `nox -s "benchmarks(script='update')"`. -->

# What an update costs

The time of a step with one weight, from the scaled loss to the new loss scale, as a ratio to stock: the median over
{rounds} rounds, and in brackets the range without the fastest and the slowest tenth. A model adds its own work to both
sides, so in a real step the ratio is nearer to 1. "Stock again" is a second trace of stock: a difference of that size
means nothing. "With a record" is patched, with `stats` called before the first step.

{table}

- {machine}; load average {load}
- Python {python}, TensorFlow {tensorflow}, on the CPU
- {updates} steps in one `tf.while_loop` for each measurement; all loops are in one process and take turns, in a new
  order each round
"""


def loop(make, ask=None):
    """A traced loop of updates of a new loss scale."""
    surface = make(2.0**10, 2000)
    if ask:
        ask(getattr(surface, "optimizer", surface.owner))

    @tf.function(input_signature=[tf.TensorSpec([UPDATES], tf.float32)])
    def run(script):
        def body(i):
            surface._train(script[i])
            return i + 1

        return tf.while_loop(lambda i: i < UPDATES, body, [0], parallel_iterations=1)

    run(tf.zeros([UPDATES]))
    return run


def measure(loops, script, rounds):
    """Returns ``{arm: [ratio to stock in each round]}``."""
    generator, ratios = random.Random(SEED), collections.defaultdict(list)
    for _ in range(rounds):
        times = {}
        for arm in generator.sample(sorted(loops), len(loops)):
            begin = time.perf_counter()
            loops[arm](script)
            times[arm] = time.perf_counter() - begin
        for arm in loops:
            ratios[arm].append(times[arm] / times["stock"])
    return ratios


def cell(ratios):
    ordered = sorted(ratios)
    tenth = len(ordered) // 10
    return "%.2f (%.2f - %.2f)" % (statistics.median(ordered), ordered[tenth], ordered[-1 - tenth])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "update-cost.md")
    options = parser.parse_args()
    surfaces.start("eager")
    found = {name: make for name, make in sorted(surfaces.surfaces("eager").items()) if name.endswith("eager")}
    loops = {name: {"stock": loop(make), "stock again": loop(make)} for name, make in found.items()}
    import tfls_patch

    tfls_patch.apply()
    arms = ["stock again", "patched", "with a record"]
    lines = ["| loss scale | steps | %s |" % " | ".join(arms), "| --- |" + " --- |" * (len(arms) + 1)]
    for name, make in found.items():
        loops[name].update({"patched": loop(make), "with a record": loop(make, tfls_patch.stats)})
        for kind, percent in SCRIPTS.items():
            generator = random.Random(SEED)
            script = [float("inf") if generator.random() * 100 < percent else 1.0 for _ in range(UPDATES)]
            ratios = measure(loops[name], tf.constant(script), options.rounds)
            cells = " | ".join(cell(ratios[arm]) for arm in arms)
            lines.append("| %s | %s | %s |" % (name.replace(" eager", ""), kind, cells))
    text = TEXT.format(
        rounds=options.rounds,
        table="\n".join(lines),
        machine=machine(),
        load="%.2f" % os.getloadavg()[0],
        python=platform.python_version(),
        tensorflow=tf.__version__,
        updates=UPDATES,
    )
    options.out.write_text(text)
    print(text)


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return "%d x %s, %s %s" % (os.cpu_count(), model, platform.system(), platform.machine())


if __name__ == "__main__":
    main()
