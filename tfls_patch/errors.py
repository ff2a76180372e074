"""Everything that this package raises or warns with."""


class LossScaleError(Exception):
    """Base class of the errors that are this package's own.

    A bad argument is not among them: it is a plain ``ValueError`` or ``TypeError`` that names the argument, the
    value and what is allowed.
    """


class UnsupportedVersionError(LossScaleError):
    """TensorFlow or Keras is not one that the patcher knows, so it was left as it is.

    Attributes:
        requested: What would have been accepted, e.g. ``"tensorflow >=1.14,<2.23"``.
        found: What is installed, e.g. ``"tensorflow 1.13.1"``, or the part of it whose shape differs.
        advice: What the user can do about it.
    """

    def __init__(self, requested, found, advice):
        self.requested = requested
        self.found = found
        self.advice = advice
        super(UnsupportedVersionError, self).__init__(requested, found, advice)

    def __str__(self):
        return "tfls_patch asked for %s but found %s; it was left unchanged. %s" % (
            self.requested,
            self.found,
            self.advice,
        )


class LossScaleFloorError(LossScaleError, FloatingPointError):
    """The loss scale is at its floor, and one step after the other is skipped all the same.

    Raised with ``at_floor="raise"``, where Python runs the step. A graph raises TensorFlow's ``InvalidArgumentError``
    with the same text.

    Attributes:
        min_scale: The floor.
        skipped: How many steps in a row were skipped there.
    """

    def __init__(self, message, min_scale=None, skipped=None):  # of a message alone: how Keras 3 makes errors anew
        self.min_scale = min_scale
        self.skipped = skipped
        super(LossScaleFloorError, self).__init__(message, min_scale, skipped)

    def __str__(self):
        return self.args[0]


class TflsPatchWarning(RuntimeWarning):
    """Something was not patched, not restored, or will not take effect; the program goes on."""
