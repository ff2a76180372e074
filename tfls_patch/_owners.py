"""Finds the object that holds the dynamic loss scale inside whatever the user has in hand."""

#: How each kind of optimizer keeps it.
_HOLDERS = ("_loss_scale", "_loss_scale_manager")

#: The attributes with the current scale and the counter of finite steps; Keras 3 has them once it is built.
_KINDS = {
    "DynamicLossScale": ("_current_loss_scale", "_num_good_steps"),
    "_DynamicLossScaleState": ("_current_loss_scale", "_counter"),
    "ExponentialUpdateLossScaleManager": ("_loss_scale", "_num_good_steps"),
}


def dynamic_scale_of(thing):
    """Returns the object whose update the bounds rule.

    Args:
        thing: A ``LossScaleOptimizer`` of any TensorFlow or Keras, ``MixedPrecisionLossScaleOptimizer``,
            ``DynamicLossScale`` or contrib's ``ExponentialUpdateLossScaleManager``.

    Raises:
        TypeError: it has no dynamic loss scale.
    """
    found = find_in(thing)
    if found is not None:
        return found
    raise TypeError(
        "optimizer must be a loss-scale optimizer or a dynamic loss scale (LossScaleOptimizer, "
        "MixedPrecisionLossScaleOptimizer, DynamicLossScale, ExponentialUpdateLossScaleManager), not %s; "
        "a fixed loss scale has no bounds" % type(thing).__name__
    )


def find_in(thing):
    """The same, but returns None where there is none."""
    for candidate in [thing] + [_attribute(thing, name) for name in _HOLDERS]:
        if _is_dynamic(candidate):
            return candidate
    return None


def _is_dynamic(candidate):
    names = {cls.__name__ for cls in type(candidate).__mro__}
    if any(name in names and kind[0] in _dict_of(candidate) for name, kind in _KINDS.items()):
        return True
    return "LossScaleOptimizer" in names and "dynamic_growth_steps" in _dict_of(candidate)  # Keras 3


def state_of(owner):
    """Returns the variables with the scale and with the counter of finite steps; ``(number, 0)`` if there are none yet.

    Args:
        owner: What `dynamic_scale_of` returns.
    """
    names = {cls.__name__ for cls in type(owner).__mro__}
    for name, (scale, good) in _KINDS.items():
        if name in names:
            return _dict_of(owner)[scale], _dict_of(owner)[good]
    return (owner.dynamic_scale, owner.step_counter) if owner.built else (owner.initial_scale, 0)


def _attribute(thing, name):
    # Not getattr: some optimizers of TF 1.14 answer unknown names with an endless search for hyper-parameters.
    return _dict_of(thing).get(name)


def _dict_of(thing):
    return getattr(thing, "__dict__", {})
