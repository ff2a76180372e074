"""The public functions. They are thin: `_patcher` has the state, `_report` the words."""

from tfls_patch._patcher import PATCHER


def arm():
    """Patches with the bounds of the environment, or waits for TensorFlow to be imported. Called on import."""
    PATCHER.arm()


def apply(min_scale=None, max_scale=None, regrow_steps=None, at_floor=None, patience=None):
    """Patches TensorFlow and Keras, now or when they are imported, and sets the rule of every loss scale.

    Calling it again only changes what is given; instances that exist already obey the new rule too. An update that was
    traced before (``tf.function``, a TF1 graph, a compiled step) keeps the rule it was traced with, and the call warns
    of it.

    For each argument None keeps what an earlier call set, else what its variable says (``TFLS_PATCH_MIN_SCALE`` and so
    on), else the default.

    Args:
        min_scale: The floor, float, 2**-126 to 2**126. The default is 2**-14; 1 is TensorFlow's own floor.
        max_scale: The ceiling, float, `min_scale` to 2**126, which is the default.
        regrow_steps: The longest growth interval while the scale is below 1, int, in steps; so a burst of overflows
            is recovered from in `regrow_steps` finite steps a doubling. The default, 0, is off: the loss scale's own
            interval (2000 in TensorFlow) holds at every scale.
        at_floor: What happens when steps are skipped although the scale is at its floor: ``"skip"`` (the default)
            says nothing, like TensorFlow; ``"warn"`` says so on stderr or by a `TflsPatchWarning`; ``"raise"`` raises
            `LossScaleFloorError` where Python runs the step, and in a graph TensorFlow's ``InvalidArgumentError`` with
            the same text.
        patience: After how many skipped steps in a row at the floor that happens, int, 1 or more; 100 by default.

    Returns:
        The `Status` after it. Under the kill switch ``TFLS_PATCH=0`` nothing is done and the status says so.

    Raises:
        TypeError: An argument is not of its type.
        ValueError: An argument is NaN, infinite, out of range or no known word, or `min_scale` would be above
            `max_scale`.
        UnsupportedVersionError: A loaded TensorFlow or Keras is not one that the patch knows.

        In each case nothing has changed.
    """
    PATCHER.apply(
        min_scale=min_scale, max_scale=max_scale, regrow_steps=regrow_steps, at_floor=at_floor, patience=patience
    )
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

    They live and die with the object, and are no part of its config or of a checkpoint. ``copy.deepcopy`` keeps them.

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


def stats(optimizer):
    """Returns what is known of one loss scale: where it is, and how many steps were skipped.

    Steps are recorded when they are skipped, so those before the patch was in place are not among them. In eager
    execution, in ``model.fit`` and in TF1 graphs the record is always kept; in a ``tf.function`` of your own it is kept
    if `stats` was called for the optimizer before the function was traced, or if a policy is set by `at_floor`; on JAX
    only in the latter case. It is no part of a checkpoint or of the optimizer's variables. In TF1 call `stats` inside
    ``with session.as_default():``.

    Args:
        optimizer: What `set_bounds` takes.

    Returns:
        A `Stats`: ``scale``, ``skipped``, ``skipped_in_a_row``, ``skipped_at_floor``, ``lowest_scale`` and
        ``highest_scale``, Python numbers. Where no record is kept, all but the scale are None, and a `TflsPatchWarning`
        says why.

    Raises:
        TypeError: `optimizer` has no dynamic loss scale.
        LossScaleError: It cannot be read here: in a function that is being traced, or in TF1 without the session.
    """
    from tfls_patch import _stats

    return _stats.of(optimizer)
