"""Recovery from a burst: how many steps the loss scale needs to come back, and what is lost to underflow meanwhile.

    python3 benchmarks/recovery.py            TensorFlow's growth interval of 2000; writes docs/recovery.md
    python3 benchmarks/recovery.py --quick    an interval of 400; writes nothing unless --out says where

A small float16 network whose loss scale lives at 2**10 is hit by 30 NaN batches, once under each rule: stock
TensorFlow, whose scale stops at 1; the patch with the same floor; and the patch with its default floor of 2**-14, with
and without ``regrow_steps``. Then it trains on good batches until the scale is back at 1, and at 2**10. The steps are
counted and compared with the arithmetic, doublings x growth interval; the script fails if one of them is off by one.

It needs TensorFlow, tf_keras, whose stock loss scale has the floor of 1, and scikit-learn for its bundled digits.
"""

import argparse
import collections
import math
import os
import platform
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for _name in [name for name in os.environ if name.startswith("TFLS_PATCH")]:
    del os.environ[_name]  # each arm says itself what it wants
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tensorflow as tf  # noqa: E402
import tf_keras  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

import tfls_patch  # noqa: E402
from tfls_patch._report import scale_text  # noqa: E402

PAGE = ROOT / "docs" / "recovery.md"
GROWTH_INTERVAL, QUICK_INTERVAL = 2000, 400

#: Where the scale lives, and the lowest scale that the patch allows by default.
HOME, FLOOR = 2.0**10, 2.0**-14
BURST_LENGTH = 30
WARM_UP_STEPS = 8000

#: So many steps are one call of a graph, and before each call the gradients of its first batch are looked at. It
#: divides every interval, so each scale on the way is sampled in proportion to the steps that it lasts.
SAMPLE_EVERY = 10

HIDDEN_UNITS, BATCH_SIZE, LEARNING_RATE = 32, 256, 0.05
#: Found by trial: the largest gradients overflow at 2**11 in a few batches of a hundred, at 2**10 in none.
LOSS_FACTOR = 640.0
#: Without these the net learns the digits by heart, its gradients fade, and its scale lives higher and higher.
WRONG_LABELS = 0.25

Arm = collections.namedtuple("Arm", ["name", "floor", "regrow_steps", "is_patched"])
Arm.__doc__ = """A rule of the loss scale.

Attributes:
    name: As the table shows it.
    floor: Where it stops falling.
    regrow_steps: The longest growth interval below 1; 0 if there is none.
    is_patched: Whether the patch is switched on.
"""

STOCK = Arm("stock TensorFlow", 1.0, 0, False)
STOCK_FLOOR = Arm("`min_scale=1`", 1.0, 0, True)
STOCK_RULE = Arm("`min_scale=2**-14`", FLOOR, 0, True)
SLOWLY_REGROWN, REGROWN, QUICKLY_REGROWN = [
    Arm("`min_scale=2**-14, regrow_steps=%d`" % steps, FLOOR, steps, True) for steps in (200, 50, 10)
]
ARMS = [STOCK, STOCK_FLOOR, STOCK_RULE, SLOWLY_REGROWN, REGROWN, QUICKLY_REGROWN]

Sample = collections.namedtuple("Sample", ["scale", "variables", "activations", "error"])
Sample.__doc__ = """The float16 gradients of one batch, beside those that float32 gives with the same weights.

Attributes:
    scale: The loss scale.
    variables: The share of the entries of the variables' gradients that underflow: 0 in float16, but not in float32.
    activations: The same of the gradients of both layers' outputs.
    error: The distance of the unscaled variables' gradients from float32's, divided by the norm of those.
"""

Result = collections.namedtuple("Result", ["scales", "samples", "to_one", "to_home", "after"])
Result.__doc__ = """What happened to an arm after its burst.

Attributes:
    scales: The scale after the burst, and after each step that followed.
    samples: A `Sample` for every `SAMPLE_EVERY` of these steps.
    to_one: Steps until the scale was back at 1.
    to_home: Steps until it was back at `HOME`.
    after: The scales of the growth interval that followed.
"""


def main(arguments=None):
    options = _options(arguments)
    tf.get_logger().setLevel("ERROR")  # it has advice on GPUs
    interval = interval_of(options)
    clock = Clock()
    warm_up = warmed_up(interval, options.seed, clock)
    results = collections.OrderedDict()
    for arm in ARMS:
        results[arm] = recover(arm, warm_up.weights, interval, options.seed, clock)
        check_arm(arm, results[arm], interval)
    check(results[STOCK_FLOOR].scales == results[STOCK].scales, True, "with a floor of 1 the scales are those of stock")
    tables = [arms_table(results, interval), scales_table(results[STOCK_RULE])]
    print("\n" + "\n\n".join(tables))
    print("\nEach count of steps is what the arithmetic says.")
    out = options.out or (None if options.quick else PAGE)
    if out:
        Path(out).write_text(page(results, warm_up, options, tables, clock.seconds()), encoding="utf-8")
        clock.say("wrote %s" % out)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a growth interval of %d" % QUICK_INTERVAL)
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: %(default)s)")
    parser.add_argument("--out", metavar="FILE", help="the page to write (default: docs/recovery.md; none if --quick)")
    return parser.parse_args(arguments)


def interval_of(options):
    return QUICK_INTERVAL if options.quick else GROWTH_INTERVAL


# --- the network ---------------------------------------------------------------------------------------------------


class Network(object):
    """A dense network for the digits under the policy mixed_float16, with a loss scale; made under the rule in force.

    Variables are float32, layers compute in float16, and the loss, a cross-entropy times a constant, is float32 again.
    """

    def __init__(self, interval, seed, scale, weights=None):
        initial = [tf_keras.initializers.GlorotUniform(seed=seed + number) for number in range(2)]
        self._layers = [
            tf_keras.layers.Dense(units, activation, kernel_initializer=initializer, dtype="mixed_float16")
            for units, activation, initializer in zip([HIDDEN_UNITS, 10], ["relu", None], initial)
        ]
        self._x, self._labels = _digits()
        self._outputs(self._x[:1])  # makes the variables
        self._variables = [variable for layer in self._layers for variable in layer.trainable_variables]
        for variable, value in zip(self._variables, weights or []):
            variable.assign(value)
        # No momentum: so the weights are all there is to be carried over from the warm-up.
        inner = tf_keras.optimizers.SGD(LEARNING_RATE / LOSS_FACTOR)
        inner.build(self._variables)
        self.optimizer = tf_keras.mixed_precision.LossScaleOptimizer(
            inner, initial_scale=scale, dynamic_growth_steps=interval
        )

    def weights(self):
        return [variable.numpy() for variable in self._variables]

    def scale(self):
        return float(self.optimizer.loss_scale)

    def batches(self, random, count):
        """Draws batches: rows of the data, and labels of which some are wrong."""
        rows = random.randint(0, len(self._x), (count, BATCH_SIZE))
        is_wrong = random.random_sample(rows.shape) < WRONG_LABELS
        labels = np.where(is_wrong, random.randint(0, 10, rows.shape), self._labels[rows])
        return tf.constant(rows, tf.int32), tf.constant(labels, tf.int32)

    @tf.function
    def train(self, rows, labels, multiplier):
        """Trains on batches whose pictures are multiplied by 1, or by NaN; returns the scale after each."""
        scales = tf.TensorArray(tf.float32, SAMPLE_EVERY)
        for number in tf.range(SAMPLE_EVERY):
            with tf.GradientTape() as tape:
                outputs = self._outputs(tf.gather(self._x, rows[number]) * multiplier)
                scaled_loss = self.optimizer.get_scaled_loss(_loss(outputs, labels[number]))
            gradients = self.optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, self._variables))
            self.optimizer.apply_gradients(list(zip(gradients, self._variables)))
            scales = scales.write(number, self.optimizer.loss_scale)
        return scales.stack()

    @tf.function
    def compare(self, rows, labels):
        """Returns the numbers of a `Sample` for one batch, in its order; trains nothing.

        A tape gives the gradients of variables in float32, but what it gives is cast from the float16 gradients of
        the float16 kernels and biases, and is 0 where they are.
        """
        x, scale = tf.gather(self._x, rows), self.optimizer.loss_scale
        with tf.GradientTape() as tape:
            outputs = self._outputs(x)
            scaled_loss = self.optimizer.get_scaled_loss(_loss(outputs, labels))
        half = tape.gradient(scaled_loss, self._variables + outputs)
        with tf.GradientTape() as tape:
            outputs = self._float32_outputs(x)
            loss = _loss(outputs, labels)
        full = tape.gradient(loss, self._variables + outputs)
        count = len(self._variables)
        error = tf.linalg.global_norm([a / scale - b for a, b in zip(half[:count], full[:count])])
        return tf.stack(
            [
                scale,
                _lost_share(half[:count], full[:count]),
                _lost_share(half[count:], full[count:]),
                error / tf.linalg.global_norm(full[:count]),
            ]
        )

    def _outputs(self, x):
        outputs = []
        for layer in self._layers:
            x = layer(x)
            outputs.append(x)
        return outputs

    def _float32_outputs(self, x):
        """The same network on the same variables, in float32."""
        hidden_kernel, hidden_bias, kernel, bias = self._variables
        hidden = tf.nn.relu(tf.matmul(x, hidden_kernel) + hidden_bias)
        return [hidden, tf.matmul(hidden, kernel) + bias]


def _digits():
    """Returns pictures and labels; the pictures are centred."""
    digits = load_digits()
    x = (digits.data / digits.data.max()).astype(np.float32)
    return tf.constant(x - x.mean(axis=0)), digits.target


def _loss(outputs, labels):
    logits = tf.cast(outputs[-1], tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return LOSS_FACTOR * tf.reduce_mean(losses)


def _lost_share(half, full):
    """The share of the entries that are not 0 in float32 which are 0 in float16."""
    pairs = [(tf.equal(a, 0), tf.not_equal(b, 0)) for a, b in zip(half, full)]
    lost = tf.add_n([tf.math.count_nonzero(zero & there) for zero, there in pairs])
    return tf.cast(lost / tf.add_n([tf.math.count_nonzero(there) for _, there in pairs]), tf.float32)


# --- the experiment ------------------------------------------------------------------------------------------------

WarmUp = collections.namedtuple("WarmUp", ["weights", "home_share", "highest"])
WarmUp.__doc__ = """The network before the burst.

Attributes:
    weights: Arrays.
    home_share: In the last half of the warm-up, the share of the steps after which the scale was `HOME`.
    highest: The highest scale in that half.
"""


def warmed_up(interval, seed, clock):
    """Trains in stock TensorFlow from its initial scale, 2**15, and checks that the scale settles at `HOME`."""
    switch(STOCK)
    clock.say("warm-up: %d steps" % WARM_UP_STEPS)
    random, network = np.random.RandomState(seed), Network(interval, seed, scale=2.0**15)
    calls = [network.train(*(network.batches(random, SAMPLE_EVERY) + (1.0,))) for _ in _calls(WARM_UP_STEPS)]
    last = np.concatenate(calls)[WARM_UP_STEPS // 2 :]
    check(float(last.min()), HOME, "the lowest scale in the last half of the warm-up")
    check(float(np.median(last)), HOME, "the usual scale in the last half of the warm-up")
    return WarmUp(network.weights(), float((last == HOME).mean()), float(last.max()))


def recover(arm, weights, interval, seed, clock):
    """Feeds the burst to one arm, and good batches until the scale is back; returns a `Result`."""
    switch(arm)
    random, network = np.random.RandomState(seed + 1), Network(interval, seed, HOME, weights)
    for _ in _calls(BURST_LENGTH):
        network.train(*(network.batches(random, SAMPLE_EVERY) + (math.nan,)))
    scales, samples = [network.scale()], []
    expected = arithmetic(arm, interval).to_home
    while HOME not in scales[1:]:
        if len(scales) > expected + SAMPLE_EVERY:
            sys.exit("%s: not back after %d steps. A good batch overflowed on the way" % (arm.name, expected))
        clock.say_at_times("%s: %d of %d steps, scale %s" % (arm.name, len(scales), expected, scale_text(scales[-1])))
        _train_and_sample(network, random, scales, samples)
    check_record(arm, network)
    to_home = scales.index(HOME)
    while len(scales) <= to_home + interval:
        _train_and_sample(network, random, scales, samples)
    clock.say("%s: back at 1 after %d steps, at 2^10 after %d" % (arm.name, scales.index(1.0), to_home))
    return Result(scales, samples, scales.index(1.0), to_home, scales[to_home : to_home + interval])


def _train_and_sample(network, random, scales, samples):
    rows, labels = network.batches(random, SAMPLE_EVERY)
    samples.append(Sample(*map(float, network.compare(rows[0], labels[0]))))
    scales.extend(map(float, network.train(rows, labels, 1.0)))


def _calls(steps):
    return range(steps // SAMPLE_EVERY)


def switch(arm):
    """Puts the rule of an arm in force, for networks that are made from now on."""
    tfls_patch.revert()
    if arm.is_patched:
        tfls_patch.apply(min_scale=arm.floor, regrow_steps=arm.regrow_steps)
    if bool(tfls_patch.status().patched) != arm.is_patched:
        sys.exit("%s\n%s: patched is to be %s" % (tfls_patch.status(), arm.name, arm.is_patched))


# --- the arithmetic ------------------------------------------------------------------------------------------------

Arithmetic = collections.namedtuple("Arithmetic", ["halvings", "below_one", "interval_below_one", "to_one", "to_home"])
Arithmetic.__doc__ = """What must happen to an arm.

Attributes:
    halvings: From `HOME` to the floor.
    below_one: Doublings from the floor to 1.
    interval_below_one: The growth interval of these.
    to_one, to_home: Steps, as in a `Result`.
"""


def arithmetic(arm, interval):
    below_one = int(-math.log2(arm.floor))
    above_one = int(math.log2(HOME))
    quick = min(interval, arm.regrow_steps or interval)
    to_one = below_one * quick
    return Arithmetic(below_one + above_one, below_one, quick, to_one, to_one + above_one * interval)


def check_arm(arm, result, interval):
    expected = arithmetic(arm, interval)
    check(result.scales[0], arm.floor, "%s: the scale after the burst" % arm.name)
    check(result.to_one, expected.to_one, "%s: steps until the scale is back at 1" % arm.name)
    check(result.to_home, expected.to_home, "%s: steps until the scale is back at 2^10" % arm.name)
    check(min(result.after), HOME, "%s: the lowest scale after that" % arm.name)


def check_record(arm, network):
    """Compares the package's own record with what was done: no batch but those of the burst was skipped."""
    if not arm.is_patched:
        return
    stats = tfls_patch.stats(network.optimizer)
    found = stats.skipped, stats.skipped_at_floor, stats.lowest_scale, stats.highest_scale
    at_floor = BURST_LENGTH - arithmetic(arm, 1).halvings
    check(found, (BURST_LENGTH, at_floor, arm.floor, HOME), "%s: the record of skipped steps" % arm.name)


def check(found, expected, what):
    if found != expected:
        sys.exit("%s: %s expected, %s found" % (what, expected, found))


# --- the page ------------------------------------------------------------------------------------------------------

TEXT = """\
<!-- Written by benchmarks/recovery.py. Do not edit: run it again. -->

# Recovery from a burst

In a burst of bad batches each one halves the loss scale, down to its floor. The way back takes a growth interval for
each doubling, and TensorFlow's is 2000 steps. While the scale is low, small gradients underflow: they are 0 in float16
where float32 has a number. This page says for how long, and how many.

A network whose loss scale lives at 2^10 is hit by {burst} NaN batches, and then trains on good ones. The growth
interval is {interval}.

{arms}

- **steps until 1, until 2^10**: steps with finite gradients, counted until the scale was there. In brackets the
  arithmetic; the script fails if a count differs from it. No step but those of the burst was skipped.
- **underflow**: of the entries of the gradients of kernels and biases that are not 0 in float32, the share that is 0 in
  float16. It is a mean over the way, from a batch in every {every} steps; so from {stock_samples} batches until 1
  without `regrow_steps`, and from {fewest_samples} with `regrow_steps={fewest}`. These gradients are float16 until they
  are cast to float32.

## What it means

- **Without `regrow_steps`, the default floor costs {stock_to_one} good steps below 1 after such a burst**,
  {share:.0f} % of the whole way back. With `regrow_steps={regrow}` it costs {regrown_to_one}.
- From 1 on, every rule takes the same {above_one} steps, as stock does: `regrow_steps` ends at 1.
- Every rule that goes down to 2^-14 passes the same scales, so until 1 the mean underflow is much the same. What
  `regrow_steps` changes is how long it lasts. Share times steps until 1 is as much as {stock_sum} whole gradients
  without it, and {regrown_sum} with `regrow_steps={regrow}`.
- What underflows is what is smallest. At 2^-14, {low_variables} of the entries are 0, and the gradient as a whole
  differs from float32's by {low_error} of its norm; at 2^10 it differs by {home_error}. Other networks may lose more,
  those above all that live at a higher scale, because the floor is further below them.
- `regrow_steps` has a price, which is not measured here. If gradients overflow at scales below 1 because the model
  lives there, and not for a burst, then each growth is followed by a skipped step: up to one step in {regrow_plus_one}
  with `regrow_steps={regrow}`, instead of one in {interval_plus_one}.

## By scale

The same for each scale that the rule without `regrow_steps` passes, and for 2^10 after it. "Activations" are the
gradients of the outputs of both layers. "Error" is the distance of the unscaled gradients of kernels and biases from
those of float32, divided by the norm of these.

{scales}

## How it was measured

- The network has {hidden} hidden units and learns scikit-learn's handwritten digits: policy `mixed_float16`, batches of
  {batch}, SGD. The loss is a mean cross-entropy in float32.
- It lives at 2^10 because its loss is multiplied by {factor:g}, and the learning rate divided by it. There is no
  ceiling: at 2^11 gradients overflow. {wrong:.0f} % of the labels of each batch are drawn at random, or the gradients
  would fade as the digits are learnt by heart, and the scale would rise.
- First it trained for {warm_up} steps in stock TensorFlow, from the initial scale of 2^15. In the last half of these
  the scale was 2^10 after {home_share:.0f} % of the steps, never below, and at most {highest}. All rules start from the
  weights that it had then, at a scale of 2^10, and see the same batches.
- In the {interval} steps after its return, no rule's scale fell below 2^10.
- "Stock TensorFlow" ran with the patch taken out. With `min_scale=1` the scale was the same after each step.

{date}, {machine}, no GPU; Python {python}, TensorFlow {tensorflow}, tf_keras {tf_keras}, NumPy {numpy}, tfls_patch
{tfls_patch}, seed {seed}. All of it took {seconds:.0f} s. The shares differ a little on other machines.

To run it: `pip install . tensorflow tf_keras scikit-learn`, then `python3 benchmarks/recovery.py`.
"""


def page(results, warm_up, options, tables, seconds):
    """Returns the text of docs/recovery.md."""
    numbers = dict(_setup(options), seconds=seconds, arms=tables[0], scales=tables[1])
    numbers.update(_findings(results))
    numbers.update(home_share=100 * warm_up.home_share, highest=scale_text(warm_up.highest))
    return wrapped(TEXT.format(**numbers))


def _setup(options):
    interval = interval_of(options)
    return dict(
        burst=BURST_LENGTH,
        interval=_number(interval),
        interval_plus_one=_number(interval + 1),
        every=SAMPLE_EVERY,
        hidden=HIDDEN_UNITS,
        batch=BATCH_SIZE,
        factor=LOSS_FACTOR,
        wrong=100 * WRONG_LABELS,
        warm_up=_number(WARM_UP_STEPS),
        seed=options.seed,
        date=time.strftime("%Y-%m-%d"),
        machine=machine(),
        python=platform.python_version(),
        tensorflow=tf.__version__,
        tf_keras=tf_keras.__version__,
        numpy=np.__version__,
        tfls_patch=tfls_patch.__version__,
    )


def _findings(results):
    stock_rule, regrown, fewest = results[STOCK_RULE], results[REGROWN], results[QUICKLY_REGROWN]
    low, home = _mean_at(stock_rule, FLOOR), _mean_at(stock_rule, HOME)
    return dict(
        stock_to_one=_number(stock_rule.to_one),
        share=100.0 * stock_rule.to_one / stock_rule.to_home,
        above_one=_number(stock_rule.to_home - stock_rule.to_one),
        stock_samples=_number(stock_rule.to_one // SAMPLE_EVERY),
        stock_sum=_lost_gradients(stock_rule),
        regrow=REGROWN.regrow_steps,
        regrow_plus_one=REGROWN.regrow_steps + 1,
        regrown_to_one=_number(regrown.to_one),
        regrown_sum=_lost_gradients(regrown),
        fewest=QUICKLY_REGROWN.regrow_steps,
        fewest_samples=_number(fewest.to_one // SAMPLE_EVERY),
        low_variables=_percent(low.variables),
        low_error=_percent(low.error),
        home_error=_percent(home.error),
    )


def wrapped(text):
    """Fills the lines of paragraphs and list items anew: what was put into them has changed their lengths."""
    return "\n\n".join(map(_wrapped_block, text.rstrip().split("\n\n"))) + "\n"


def _wrapped_block(block):
    if block[0] in "|#<":
        return block
    if not block.startswith("- "):
        return _filled(block)
    items = ("\n" + block).split("\n- ")[1:]
    return "\n".join(_filled(item, initial_indent="- ", subsequent_indent="  ") for item in items)


def _filled(text, **indents):
    words = " ".join(text.split())
    return textwrap.fill(words, width=120, break_on_hyphens=False, break_long_words=False, **indents)


def arms_table(results, interval):
    columns = ["rule", "scale after the burst", "steps until 1", "steps until 2^10"]
    columns += ["underflow until 1", "underflow until 2^10"]
    return _table(columns, [_arm_row(arm, result, interval) for arm, result in results.items()])


def _arm_row(arm, result, interval):
    expected = arithmetic(arm, interval)
    below_one = "%d x %d" % (expected.below_one, expected.interval_below_one)
    above_one = "%d x %d" % (expected.halvings - expected.below_one, interval)
    counts = ["0", "%s (%s)" % (_number(result.to_home), above_one)]
    if result.to_one:
        counts = [
            "%s (%s)" % (_number(result.to_one), below_one),
            "%s (%s + %s)" % (_number(result.to_home), below_one, above_one),
        ]
    return (
        [arm.name, scale_text(result.scales[0])]
        + counts
        + [_underflow(result, result.to_one), _underflow(result, result.to_home)]
    )


def _underflow(result, steps):
    return _percent(_mean(result, steps).variables) if steps else "-"


def scales_table(result):
    columns = ["scale", "underflow", "underflow of activations", "error"]
    exponents = range(int(math.log2(FLOOR)), int(math.log2(HOME)) + 1, 2)
    means = [(exponent, _mean_at(result, 2.0**exponent)) for exponent in exponents]
    return _table(columns, [["2^%d" % exponent] + list(map(_percent, mean[1:])) for exponent, mean in means])


def _mean(result, steps):
    """The mean `Sample` of the first `steps` steps after the burst."""
    return _mean_of(result.samples[: steps // SAMPLE_EVERY])


def _mean_at(result, scale):
    return _mean_of([sample for sample in result.samples if sample.scale == scale])


def _mean_of(samples):
    return Sample(*np.mean(samples, axis=0))


def _lost_gradients(result):
    return "%.3g" % (_mean(result, result.to_one).variables * result.to_one)


def _table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| %s |" % " | ".join(line) for line in lines)


def _percent(share):
    return "< 0.001 %" if 0 < share < 1e-5 else "%.2g %%" % (100 * share)


def _number(number):
    return "{:,}".format(number)


def machine():
    """Names the processor and the system, without the name of the host."""
    name = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        name = names[0] if names else name
    return "%d-core %s, %s %s" % (os.cpu_count(), name or "processor", platform.system(), platform.machine())


class Clock(object):
    """Says on stderr how far the work is, with the seconds since it was made."""

    def __init__(self):
        self._start = self._last = time.time()

    def seconds(self):
        return time.time() - self._start

    def say(self, text):
        self._last = time.time()
        sys.stderr.write("[%3d s] %s\n" % (self.seconds(), text))
        sys.stderr.flush()

    def say_at_times(self, text):
        """Says it if nothing was said for a while."""
        if time.time() - self._last > 5:
            self.say(text)


if __name__ == "__main__":
    main()
