"""What ``underflow.py`` trains: small models on real data, each in a situation where the loss scale is below 1.

Data come with scikit-learn (handwritten digits, diabetes) or with this repository (the text of LICENSE), so nothing is
downloaded. Everything random is drawn from the seed, so every arm starts from the same weights and sees the same
batches.
"""

import collections
import functools
import pathlib

import numpy as np
import tensorflow as tf
import tf_keras as keras

#: The first steps of a run are good ones, then comes the burst. It is long enough for 2**15 -> 2**-24 (39 halvings).
BURST_START = 100
BURST_LENGTH = 45

LOW_FLOOR = 2.0**-24
DEFAULT_FLOOR = 2.0**-14

VALIDATION_SHARE = 0.2
TEXT_LENGTH = 12

Situation = collections.namedtuple(
    "Situation",
    "key title why designed_for data model loss optimizer policy floor factor burst masked batch_size",
)
Situation.__doc__ = """One model in one situation.

Attributes:
    key: A short name.
    title: The heading of its table.
    why: What is special about it, in a sentence.
    designed_for: ``benefit`` or ``harm`` or ``neither``: what the rule was expected to bring.
    data: A function of a `RandomState` that returns ``(x, y)`` of all examples, in random order.
    model: A function without arguments that builds the model under the policy in force.
    loss: A function of labels and predictions; the losses of the examples.
    optimizer: A function without arguments that makes the inner optimizer.
    policy: Of the float16 arms.
    floor: ``min_scale``.
    factor: What the mean loss is multiplied by.
    burst: Whether there is a burst of NaN batches.
    masked: The share of batches in which every example is masked.
    batch_size: Examples in a batch.
"""

Examples = collections.namedtuple("Examples", "x y")
Examples.__doc__ = "Inputs and labels, two arrays."

Plan = collections.namedtuple("Plan", "train validation rows weights bad")
Plan.__doc__ = """What one seed gives to every arm.

Attributes:
    train: `Examples`.
    validation: `Examples`.
    rows: Which training examples are in the batch of each step, int32 (steps, batch size).
    weights: The weight of each of them in the loss: 0 if masked, NaN in the burst, else 1.
    bad: Whether that step is part of the burst, bool (steps,).
"""


def plan(situation, seed, steps):
    """Draws the split, the batches, the masks and the place of the burst; `steps` does not count the burst."""
    random = np.random.RandomState(seed)
    x, y = situation.data(random)
    held_out = int(len(x) * VALIDATION_SHARE)
    train, validation = Examples(x[held_out:], y[held_out:]), Examples(x[:held_out], y[:held_out])
    bad = np.zeros(steps + BURST_LENGTH * situation.burst, bool)
    bad[BURST_START : BURST_START + BURST_LENGTH * situation.burst] = True
    shape = len(bad), situation.batch_size
    rows = random.randint(len(train.x), size=shape).astype(np.int32)
    weights = np.ones(shape, np.float32)
    weights[random.uniform(size=len(bad)) < situation.masked] = 0
    weights[bad] = np.nan
    return Plan(train, validation, rows, weights, bad)


# --- Data ----------------------------------------------------------------------------------------------------------


def digits(random, label=lambda target: target):
    """Returns handwritten digits, 8 x 8 pixels, and what `label` makes of their values."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = random.permutation(len(data.target))
    return (data.data[order] / 16 - 0.3).astype(np.float32), label(data.target[order]).astype(np.float32)


def diabetes(random):
    """Returns ten measurements of each patient, standardized, and the progression of the disease, in hundreds."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    order = random.permutation(len(data.target))
    x = data.data / data.data.std(axis=0)
    return x[order].astype(np.float32), (data.target[order] / 100).astype(np.float32)


def text(random):
    """Returns pieces of LICENSE as letters, and for each letter the one that follows."""
    path = pathlib.Path(__file__).resolve().parent.parent / "LICENSE"
    letters = " ".join(path.read_text(encoding="utf-8").lower().split())
    codes = np.array([_ALPHABET.find(letter) + 1 for letter in letters])  # 0 is any other character
    starts = random.permutation(len(codes) - TEXT_LENGTH)[:4000]
    pieces = np.stack([codes[start : start + TEXT_LENGTH + 1] for start in starts]).astype(np.float32)
    return pieces[:, :-1], pieces[:, 1:]


_ALPHABET = " abcdefghijklmnopqrstuvwxyz.,;()"


# --- Models --------------------------------------------------------------------------------------------------------


def dense(outputs, inputs=64, hidden=64, output_activation=None, l2=0.0):
    """A hidden layer of ReLUs."""
    regularizer = keras.regularizers.L2(l2) if l2 else None
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(hidden, activation="relu", kernel_regularizer=regularizer),
            keras.layers.Dense(outputs, activation=output_activation, kernel_regularizer=regularizer),
        ]
    )


def convolutional():
    """Two small convolutions."""
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Reshape((8, 8, 1)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


def recurrent():
    """Predicts the next letter from the ones before."""
    letters = len(_ALPHABET) + 1
    return keras.Sequential(
        [
            keras.Input((TEXT_LENGTH,)),
            keras.layers.Embedding(letters, 16),
            keras.layers.SimpleRNN(32, return_sequences=True, unroll=True),
            keras.layers.Dense(letters),
        ]
    )


# --- Losses of the examples ----------------------------------------------------------------------------------------


def cross_entropy(labels, predictions):
    """Of classes; of a text, the mean over its letters."""
    logits = tf.cast(predictions, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
    return tf.reduce_mean(tf.reshape(losses, [tf.shape(losses)[0], -1]), axis=1)


def squared(labels, predictions):
    """The squared error, in the type of the predictions if that is a float16 model's own choice of loss."""
    return tf.square(predictions[:, 0] - tf.cast(labels, predictions.dtype))


def squared_in_float32(labels, predictions):
    """The squared error, in float32."""
    return squared(labels, tf.cast(predictions, tf.float32))


def hinge(labels, predictions):
    """Exactly 0, and so is its gradient, where the margin is kept. Labels are 1 and -1."""
    return tf.maximum(0.0, 1 - labels * tf.cast(predictions[:, 0], tf.float32))


def clipped(labels, predictions):
    """The squared error, cut off at 4, so that outliers do not count: their gradients are 0, their losses are not."""
    return tf.minimum(squared_in_float32(labels, predictions), 4.0)


# --- The situations ------------------------------------------------------------------------------------------------


def _adam(rate):
    return functools.partial(keras.optimizers.Adam, rate)


def _sgd(rate):
    return functools.partial(keras.optimizers.SGD, rate, momentum=0.9)


def _is_nine(target):
    return target == 9


def _sign(target):
    """A hinge loss wants 1 for a nine, and -1 for the others."""
    return np.where(target == 9, 1, -1)


_BURST = Situation(
    key="dense",
    title="Dense net, digits, NaN burst, floor 2^-24",
    why="A floor that is far too low. The burst brings the scale down to it, and there every gradient is 0.",
    designed_for="benefit",
    data=digits,
    model=functools.partial(dense, 10),
    loss=cross_entropy,
    optimizer=_adam(1e-3),
    policy="mixed_float16",
    floor=LOW_FLOOR,
    factor=1.0,
    burst=True,
    masked=0.0,
    batch_size=32,
)

_LARGE_LOSS = Situation(
    key="large loss",
    title="Dense net, digits, large loss",
    why="The model of the demonstration, which needs a scale below 1 for long.",
    designed_for="neither",
    data=digits,
    model=functools.partial(dense, 1, hidden=128),
    loss=squared_in_float32,
    optimizer=_adam(1e-3),
    policy="mixed_float16",
    floor=DEFAULT_FLOOR,
    factor=1e6,
    burst=False,
    masked=0.0,
    batch_size=32,
)

_MASKED = _LARGE_LOSS._replace(
    key="masked 30 %",
    title="Recurrent net, text, large loss, 30 % of the batches fully masked",
    why="The gradients of a masked batch are 0, and rightly so.",
    designed_for="harm",
    data=text,
    model=recurrent,
    loss=cross_entropy,
    optimizer=_adam(3e-3),
    factor=1e7,
    masked=0.3,
    batch_size=16,
)

_CONVOLUTIONAL = _BURST._replace(
    key="conv",
    title="Convolutional net, digits, NaN burst, floor 2^-24",
    why="The same with convolutions.",
    model=convolutional,
)

_RECURRENT = _BURST._replace(
    key="recurrent",
    title="Recurrent net, text, NaN burst, floor 2^-24",
    why="The same with a recurrent net.",
    data=text,
    model=recurrent,
    optimizer=_adam(3e-3),
    batch_size=16,
)


def _with_default_floor(situation):
    return situation._replace(
        key=situation.key + ", default floor",
        title=situation.title.replace("floor 2^-24", "default floor (2^-14)"),
        why="The floor that one gets if one sets none.",
        floor=DEFAULT_FLOOR,
    )


SITUATIONS = [
    _BURST,
    _CONVOLUTIONAL,
    _RECURRENT,
    _BURST._replace(
        key="float16 variables",
        title="Dense net in pure float16, diabetes, NaN burst, floor 2^-24",
        why="Variables, gradients and the loss are float16 as well.",
        data=diabetes,
        model=functools.partial(dense, 1, inputs=10, hidden=32),
        loss=squared,
        optimizer=_sgd(3e-3),
        policy="float16",
    ),
    _with_default_floor(_BURST),
    _with_default_floor(_CONVOLUTIONAL),
    _with_default_floor(_RECURRENT),
    _BURST._replace(
        key="L2",
        title="Dense net, digits, NaN burst, floor 2^-24, an L2 penalty",
        why="The gradients of the penalty on the kernels are float32 and never all 0.",
        model=functools.partial(dense, 10, l2=1e-4),
    ),
    _LARGE_LOSS,
    _MASKED,
    _MASKED._replace(
        key="masked 80 %",
        title="Recurrent net, text, large loss, 80 % of the batches fully masked",
        why="The same with rare signals.",
        masked=0.8,
    ),
    _LARGE_LOSS._replace(
        key="hinge",
        title="Dense net, digits (nine or not), large hinge loss",
        why="Once the margins are kept, most batches have a loss, and gradients, of exactly 0.",
        designed_for="harm",
        data=functools.partial(digits, label=_sign),
        model=functools.partial(dense, 1),
        loss=hinge,
        batch_size=8,
    ),
    _LARGE_LOSS._replace(
        key="clipped",
        title="Dense net, digits, a large loss that is clipped",
        why="An error above 2 has a gradient of 0 and a loss of 4. Often all errors of a small batch are like that.",
        designed_for="harm",
        loss=clipped,
        batch_size=2,
    ),
    _LARGE_LOSS._replace(
        key="ReLU output",
        title="Dense net with a ReLU at the output, digits (1 for a nine, else 0), large loss",
        why="The output is 0 for most batches. If it is wrong, the loss is not 0 there, but the gradients still are.",
        designed_for="harm",
        data=functools.partial(digits, label=_is_nine),
        model=functools.partial(dense, 1, output_activation="relu"),
        batch_size=4,
    ),
    _LARGE_LOSS._replace(
        key="dying ReLU",
        title="Dense net with a ReLU at the output, diabetes, large loss, a learning rate that is too high",
        why="With some seeds the net dies: soon its output is 0 for every patient, and its gradients are 0 for good.",
        designed_for="harm",
        data=diabetes,
        model=functools.partial(dense, 1, inputs=10, hidden=16, output_activation="relu"),
        optimizer=_sgd(0.3e-6),
        batch_size=16,
    ),
]
