"""Scales that make no sense, seen at construction: 0, negative, NaN, infinite.

Stock takes most of them. A script that ran with one is not broken by us: what stock refuses is refused by stock, the
rest gets a warning. A dynamic scale comes inside its bounds at the first overflow; a fixed one stays as it is.
"""

import functools
import inspect
import math
import numbers

from tfls_patch import _warn
from tfls_patch.patches._declare import Target

_DYNAMIC = "It comes inside its bounds when a gradient overflows; until then steps may have no effect"
_FIXED = "With it nothing will be learnt"


def is_nonsense(value):
    """Whether a number is no loss scale. What is no number (a tensor, an object) is not judged."""
    return isinstance(value, numbers.Real) and not (value > 0 and math.isfinite(value))


def _replace(argument, public_name, original, module):
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs).arguments
        is_dynamic = given.get("dynamic", True)
        # `LossScaleOptimizer(dynamic=True)` hands its scale on to an object that comes by here itself.
        if is_nonsense(given.get(argument)) and not (is_dynamic and "dynamic" in signature.parameters):
            _tell(public_name, given[argument], _DYNAMIC if "dynamic" not in signature.parameters else _FIXED)

    return __init__


def _tell(argument, value, consequence):
    _warn.at_user_line(
        "%s=%r is no usable loss scale: it must be above 0 and finite, such as 2**15. TensorFlow takes it, so it was "
        "left. %s" % (argument, value, consequence)
    )


def warn_of_fixed(argument, value):
    """Warns if a fixed scale that stock has taken makes no sense."""
    if is_nonsense(value):
        _tell(argument, value, _FIXED)


def _target(class_name, parameters, argument, uses, public_name=None):
    replace = functools.partial(_replace, argument, public_name or argument)
    return Target(class_name + ".__init__", ("self",) + parameters, uses, replace)


#: ``DynamicLossScale`` (TF 1.14 on).
DYNAMIC_LOSS_SCALE = _target(
    "DynamicLossScale",
    ("initial_loss_scale", "increment_period", "multiplier"),
    "initial_loss_scale",
    ("_initial_loss_scale",),
)

#: The dynamic state of the Keras optimizers (TF 2.4 on, tf_keras). The user knows its scale by the optimizer's name.
KERAS_STATE = _target(
    "_DynamicLossScaleState",
    ("initial_loss_scale", "growth_steps", "multiplier"),
    "initial_loss_scale",
    ("_initial_loss_scale",),
    public_name="initial_scale",
)

#: ``tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager`` (TF 1.14 - 1.15).
EXPONENTIAL_MANAGER = _target(
    "ExponentialUpdateLossScaleManager",
    ("init_loss_scale", "incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_ratio", "decr_ratio"),
    "init_loss_scale",
    ("_loss_scale",),
)


def _keras_optimizer(class_name):
    return _target(
        class_name,
        ("inner_optimizer", "dynamic", "initial_scale", "dynamic_growth_steps"),
        "initial_scale",
        ("_loss_scale",),
    )


#: The optimizers of TF 2.4 - 2.15 and tf_keras, for their fixed scales.
KERAS_OPTIMIZER = _keras_optimizer("LossScaleOptimizer")
KERAS_OPTIMIZER_V3 = _keras_optimizer("LossScaleOptimizerV3")

#: Keras 3; some versions have a ``name``.
KERAS_3_OPTIMIZER = _target(
    "LossScaleOptimizer",
    ("inner_optimizer", "initial_scale", "dynamic_growth_steps", Ellipsis),
    "initial_scale",
    ("initial_scale", "dynamic_growth_steps"),
)
