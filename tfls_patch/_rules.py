"""Which rule an object obeys at this moment.

The one piece of mutable state that the replacement methods read. The lock is held for a look at it only; nothing is
imported and no user code runs under it.
"""

from _thread import allocate_lock  # threading itself takes longer to import than this package

from tfls_patch._settings import Settings, check_order, checked_scale

#: Instance attribute with an object's own bounds, a plain tuple ``(min_scale or None, max_scale or None)``: it is
#: copied by ``copy.deepcopy``, dies with its object, and unpickles where this package is not installed.
OWN_ATTRIBUTE = "_tfls_patch_bounds"

_lock = allocate_lock()
_settings = None  # made on first use, so that importing this module reads no environment


def settings():
    """Returns the process-wide `Settings` in force."""
    global _settings
    with _lock:
        if _settings is None:
            _settings = Settings.from_environment()[0]
        return _settings


def use(new_settings):
    """Puts `new_settings` in force; None goes back to what the environment says."""
    global _settings
    with _lock:
        _settings = new_settings


def of(owner):
    """Returns the `Rule` of one loss-scale object: the process-wide one, with the bounds of its own that it has."""
    rule, own = settings().rule, vars(owner).get(OWN_ATTRIBUTE)
    if own is None:
        return rule
    low, high = own
    # What the object was given wins: a process-wide bound on the other side of it gives way.
    if low is None:
        low = rule.min_scale if high is None else min(rule.min_scale, high)
    if high is None:
        high = max(rule.max_scale, low)
    return rule._replace(min_scale=low, max_scale=high)


def set_own(owner, min_scale, max_scale):
    """Gives one loss-scale object bounds of its own; None leaves that side to the process-wide bounds.

    Raises:
        TypeError, ValueError: as `checked_scale`; nothing is changed then.
    """
    low = None if min_scale is None else checked_scale("min_scale", min_scale)
    high = None if max_scale is None else checked_scale("max_scale", max_scale)
    old_low, old_high = vars(owner).get(OWN_ATTRIBUTE, (None, None))
    low = old_low if low is None else low
    high = old_high if high is None else high
    if low is not None and high is not None:
        check_order(low, high)
    # Not setattr: Keras and Trackable objects would track, wrap or delegate the attribute.
    vars(owner)[OWN_ATTRIBUTE] = (low, high)
    if type(owner).__reduce__ is not object.__reduce__:
        import types  # here, because starts of Python that never come to this do without it

        # Keras 3 copies an optimizer by way of its saved form, which has none of our bounds.
        vars(owner)["__deepcopy__"] = types.MethodType(_copy_with_bounds, owner)


def _copy_with_bounds(owner, memo):
    function, arguments = owner.__reduce__()[:2]
    twin = memo[id(owner)] = function(*arguments)
    set_own(twin, *vars(owner)[OWN_ATTRIBUTE])
    return twin
