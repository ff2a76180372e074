"""The data of the demonstration: the handwritten digits that come with scikit-learn, batches and initial weights.

All of it is drawn here, from one seed, so that every arm starts from the same weights and sees the same batches.
"""

import numpy as np

HIDDEN_UNITS = 128
BATCH_SIZE = 32
LEARNING_RATE = 7e-4
VALIDATION_SHARE = 0.2


def save(path, seed, steps, loss_factor, growth_steps, bad_steps=range(0)):
    """Writes the ``.npz`` file that ``worker.py`` reads.

    Args:
        path: Where to.
        seed: Of the split, the batches and the weights.
        steps: How many training steps on real batches, over which the learning rate decays to 0.
        loss_factor: What the mean squared error is multiplied by.
        growth_steps: How many good steps in a row double the loss scale.
        bad_steps: A range of further steps, put in between, whose batches are NaN.
    """
    random = np.random.RandomState(seed)
    train, validation = _digits(random)
    bad = np.zeros(steps + len(bad_steps), bool)
    bad[list(bad_steps)] = True
    batches = np.zeros((len(bad), BATCH_SIZE), int)
    batches[~bad] = [random.choice(len(train[0]), BATCH_SIZE, replace=False) for _ in range(steps)]
    arrays = _initial_weights(random, inputs=train[0].shape[1])
    arrays.update(
        x_train=train[0],
        y_train=train[1],
        x_validation=validation[0],
        y_validation=validation[1],
        batches=batches,
        bad=bad,
        decay_steps=steps,
        learning_rate=LEARNING_RATE,
        loss_factor=loss_factor,
        growth_steps=growth_steps,
    )
    np.savez(path, **arrays)


def _digits(random):
    """Returns ``(x, y)`` to train and ``(x, y)`` to validate; x is the picture, y the digit's value."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.data / digits.data.max()).astype(np.float32)
    y = digits.target.astype(np.float32).reshape(-1, 1)
    order = random.permutation(len(x))
    held_out = int(len(x) * VALIDATION_SHARE)
    validation, train = order[:held_out], order[held_out:]
    x -= x[train].mean(axis=0)
    return (x[train], y[train]), (x[validation], y[validation])


def _initial_weights(random, inputs):
    def glorot_uniform(rows, columns):
        limit = np.sqrt(6.0 / (rows + columns))
        return random.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    return {
        "hidden_kernel": glorot_uniform(inputs, HIDDEN_UNITS),
        "hidden_bias": np.zeros(HIDDEN_UNITS, np.float32),
        "output_kernel": glorot_uniform(HIDDEN_UNITS, 1),
        "output_bias": np.zeros(1, np.float32),
    }
