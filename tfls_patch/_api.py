"""The public functions. They are thin: `_patcher` has the state, `_report` the words."""

from tfls_patch._patcher import PATCHER


def arm():
    """Patches with the bounds of the environment, or waits for TensorFlow to be imported. Called on import."""
    PATCHER.arm()


def apply(min_scale=None, max_scale=None):
    """Patches TensorFlow and Keras, now or when they are imported, and sets the bounds of every loss scale.

    Calling it again only changes the bounds that are given; instances that exist already obey the new ones too. An
    update that was traced before (``tf.function``, a TF1 graph, a compiled step) keeps the bounds it was traced with,
    and the call warns of it.

    Args:
        min_scale: The floor, float, 2**-126 to 2**126. None keeps what an earlier call set, else what the variable
            ``TFLS_PATCH_MIN_SCALE`` says, else 2**-14. 1 is TensorFlow's own floor.
        max_scale: The ceiling, float, `min_scale` to 2**126. None likewise, with ``TFLS_PATCH_MAX_SCALE`` and 2**126.

    Returns:
        The `Status` after it. Under the kill switch ``TFLS_PATCH=0`` nothing is done and the status says so.

    Raises:
        TypeError: An argument is not a number.
        ValueError: An argument is NaN, infinite or out of range, or `min_scale` would be above `max_scale`.
        UnsupportedVersionError: A loaded TensorFlow or Keras is not one that the patch knows.

        In each case nothing has changed.
    """
    PATCHER.apply(min_scale, max_scale)
    return status()


def revert():
    """Puts back the very functions that stock had, forgets the bounds, and patches nothing any more until `apply`.

    Graphs that were traced while patched stay as they were traced.

    Returns:
        The `Status` after it.
    """
    PATCHER.revert()
    return status()


def status():
    """Returns a `Status`: what is patched, pending, absent or refused, and why; it prints as a table.

    Never imports TensorFlow or Keras.
    """
    from tfls_patch import _report

    return _report.status_of(PATCHER.snapshot())


def set_bounds(optimizer, min_scale=None, max_scale=None):
    """Gives one loss scale bounds of its own, which win over those of `apply`: for a GAN with two optimizers.

    They live and die with the object, and are no part of its config or of a checkpoint. ``copy.deepcopy`` keeps them,
    except in Keras 3, which copies an optimizer by way of its saved form.

    Args:
        optimizer: A ``LossScaleOptimizer`` of any TensorFlow or Keras, ``MixedPrecisionLossScaleOptimizer``,
            ``DynamicLossScale``, or contrib's ``ExponentialUpdateLossScaleManager``.
        min_scale: The floor, as for `apply`; None leaves it as it is.
        max_scale: The ceiling, as for `apply`; None leaves it as it is.

    Raises:
        TypeError: `optimizer` has no dynamic loss scale, or a bound is not a number.
        ValueError: A bound is out of range, or the floor would be above the ceiling.
    """
    PATCHER.set_bounds(optimizer, min_scale, max_scale)
