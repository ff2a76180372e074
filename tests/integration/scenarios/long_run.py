"""A long run in one graph loop: usage ``long_run.py STEPS``. Every scale on the way is the float32 reference's.

Random bursts of overflows, a ceiling that is no power of two, regrowth; and memory stays as it is.
"""

import random
import resource
import sys

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf

import tfls_patch

LOW, HIGH, REGROW, INTERVAL, INITIAL = 2.0**-9, 3000.0, 2, 5, 64.0
SLACK = 64 << 10  # KiB


def script_of(steps):
    """Whether each step overflows: bursts of random length, far apart or close."""
    generator, bad = random.Random(0), []
    while len(bad) < steps:
        bad += [False] * generator.choice([1, 3, 10, 100]) + [True] * generator.choice([1, 2, 5, 40])
    return np.array(bad[:steps])


def reference(script):
    """The contract in float32: the scale after each step, and how many steps were taken."""
    low, high, two = np.float32(LOW), np.float32(HIGH), np.float32(2)
    scale, good, scales = np.float32(INITIAL), 0, np.empty(len(script), np.float32)
    for position, bad in enumerate(script.tolist()):
        if bad:
            good, changed = 0, scale / two
        else:
            good += 1
            if good < (min(INTERVAL, REGROW) if scale < 1 else INTERVAL):
                scales[position] = scale
                continue
            good, changed = 0, scale * two
        scale = min(changed, high) if changed >= low else low
        scales[position] = scale
    return scales, good


def loop(surface, steps):
    """A function that trains for all the steps and returns the scale after each."""

    @tf.function(input_signature=[tf.TensorSpec([steps], tf.bool)])
    def run(script):
        def body(i, scales):
            surface._train(tf.where(script[i], float("inf"), 1.0))
            return i + 1, scales.write(i, tf.convert_to_tensor(surface.variables()[0]))

        scales = tf.TensorArray(tf.float32, steps)
        return tf.while_loop(lambda i, _: i < steps, body, [0, scales], parallel_iterations=1)[1].stack()

    return run


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check(name, make, steps):
    surface = make(INITIAL, INTERVAL)
    owner = getattr(surface, "optimizer", surface.owner)
    assert tfls_patch.stats(owner).skipped == 0  # asks for the record
    script = script_of(steps)
    run = loop(surface, steps)
    expected, good = reference(script)
    used = []
    for _ in range(2):  # the second time nothing is allocated that was not before
        surface.set_scale(INITIAL)
        surface.variables()[1].assign(0)
        surface.w.assign(1.0)
        scales = run(tf.constant(script)).numpy()
        used.append(memory())
        assert np.array_equal(scales, expected), (name, np.flatnonzero(scales != expected)[:5])
        assert np.float32(LOW) <= scales.min() and scales.max() <= np.float32(HIGH)
        weight = 1.0 - surfaces.RATE * int((~script).sum())
        assert surface.state() == (float(expected[-1]), good, weight), (name, surface.state(), good, weight)
    assert used[1] - used[0] < SLACK, (name, used)
    stats = tfls_patch.stats(owner)
    assert stats.skipped == 2 * script.sum(), (name, stats)
    assert stats.lowest_scale == float(expected.min()) and stats.highest_scale == float(expected.max()), (name, stats)


surfaces.start("eager")
tfls_patch.apply(min_scale=LOW, max_scale=HIGH, regrow_steps=REGROW)
found = {name: make for name, make in surfaces.surfaces("eager").items() if name.endswith("eager")}
for name, make in sorted(found.items()):
    check(name, make, int(sys.argv[1]) // (1 if name.startswith("DynamicLossScale") else 10))
print("OK", sorted(found))
