"""The data of the demonstrations: examples, batches and initial weights.

All of it is drawn here, from one seed, so that every arm starts from the same weights and sees the same batches.
"""

import collections

import numpy as np

VALIDATION_SHARE = 0.2

#: The hourglass sees images of this height and width. They are small because float16 convolutions are slow on CPU, most
#: of all before TensorFlow 2.16.
IMAGE = (16, 32)
IMAGES = 2500

Task = collections.namedtuple("Task", ["examples", "weights", "batch_size", "learning_rate"])
Task.__doc__ = """What a network learns, and how.

Attributes:
    examples: A function of a random generator that returns x and y.
    weights: A function of the same and of x that returns the initial weights, in Keras's order.
    batch_size: How many examples make a step.
    learning_rate: At the start. It decays to 0 over the training.
"""


def save(path, task, seed, steps, loss_factor, growth_steps, bad_steps=range(0)):
    """Writes the ``.npz`` file that ``worker.py`` reads.

    Args:
        path: Where to.
        task: A key of `TASKS`.
        seed: Of the examples, their split, the batches and the weights.
        steps: How many training steps on real batches, over which the learning rate decays to 0.
        loss_factor: What the error is multiplied by to give the loss.
        growth_steps: How many good steps in a row double the loss scale.
        bad_steps: A range of further steps, put in between, whose batches are NaN.
    """
    random = np.random.RandomState(seed)
    task = TASKS[task]
    train, validation = _split(random, *task.examples(random))
    bad = np.zeros(steps + len(bad_steps), bool)
    bad[list(bad_steps)] = True
    batches = np.zeros((len(bad), task.batch_size), int)
    batches[~bad] = [random.choice(len(train[0]), task.batch_size, replace=False) for _ in range(steps)]
    weights = {"weight_%02d" % number: each for number, each in enumerate(task.weights(random, train[0]))}
    np.savez(
        path,
        x_train=train[0],
        y_train=train[1],
        x_validation=validation[0],
        y_validation=validation[1],
        batches=batches,
        bad=bad,
        decay_steps=steps,
        learning_rate=task.learning_rate,
        loss_factor=loss_factor,
        growth_steps=growth_steps,
        **weights
    )


def _split(random, x, y):
    """Returns ``(x, y)`` to train and ``(x, y)`` to validate, x around 0."""
    order = random.permutation(len(x))
    held_out = int(len(x) * VALIDATION_SHARE)
    validation, train = order[:held_out], order[held_out:]
    x = x - x[train].mean(axis=0)
    return (x[train], y[train]), (x[validation], y[validation])


def _glorot_uniform(random, *shape):
    field = int(np.prod(shape[:-2]))
    limit = np.sqrt(6.0 / (field * (shape[-2] + shape[-1])))
    return random.uniform(-limit, limit, shape).astype(np.float32)


# --- the digits ----------------------------------------------------------------------------------------------------


def _digits(random):
    """Returns pictures, and the values of the digits on them. They are the same whatever `random` is."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.data / digits.data.max()).astype(np.float32)
    return x, digits.target.astype(np.float32).reshape(-1, 1)


def _dense_weights(random, x, hidden_units=128):
    return [
        _glorot_uniform(random, x.shape[1], hidden_units),
        np.zeros(hidden_units, np.float32),
        _glorot_uniform(random, hidden_units, 1),
        np.zeros(1, np.float32),
    ]


# --- the areas of interest -----------------------------------------------------------------------------------------


def _areas(random):
    """Returns noisy images with discs and bars on them, and for each pixel whether it is in a disc.

    A disc is an area of interest, a bar of the same brightness is not.
    """
    x = random.normal(0.0, 0.15, (IMAGES,) + IMAGE + (1,)).astype(np.float32)
    y = np.zeros_like(x)
    rows, columns = np.indices(IMAGE)
    for image, mask in zip(x, y):
        for _ in range(random.randint(1, 4)):
            row, column, radius = random.uniform(0, IMAGE[0]), random.uniform(0, IMAGE[1]), random.uniform(1.5, 3.5)
            disc = (rows - row) ** 2 + (columns - column) ** 2 < radius ** 2
            mask[disc] = 1.0
            image[disc] += 1.0
        for _ in range(random.randint(1, 4)):
            row, column, length = random.randint(IMAGE[0]), random.randint(IMAGE[1]), random.randint(6, 16)
            image[row, column : column + length] += 1.0
    return x, y


def _hourglass_weights(random, x, channels=(1, 8, 8, 8, 8, 8, 1)):
    weights = []
    for inputs, outputs in zip(channels, channels[1:]):
        weights += [_glorot_uniform(random, 3, 3, inputs, outputs), np.zeros(outputs, np.float32)]
    return weights


TASKS = {
    "digits": Task(_digits, _dense_weights, batch_size=32, learning_rate=7e-4),
    "hourglass": Task(_areas, _hourglass_weights, batch_size=4, learning_rate=3e-3),
}
