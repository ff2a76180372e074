"""Records of skipped steps, at-floor policies and regrow_steps on every surface: usage ``skips.py eager|graph``."""

import sys
import warnings

import surfaces
from surfaces import tf

import tfls_patch

INF, NAN = float("inf"), float("nan")


def apply(**settings):
    tfls_patch.revert()  # forgets what an earlier part has set
    tfls_patch.apply(**settings)


def stats_of(surface):
    """What `stats` says, of the optimizer if there is one: in a session where there is a session."""
    thing = getattr(surface, "optimizer", surface.owner)
    if isinstance(surface, surfaces._Graph):
        with surface.session.as_default():
            return tfls_patch.stats(thing)
    return tfls_patch.stats(thing)


def made(make, initial, interval):
    """Makes a surface whose record is asked for before its step is traced."""
    surface = make(initial, interval)
    stats_of(surface)
    return surface


def expect(name, surface, **expected):
    found = stats_of(surface)
    assert all(type(value) in (int, float) for value in found), (name, found)
    wrong = {key: (getattr(found, key), value) for key, value in expected.items() if getattr(found, key) != value}
    assert not wrong, (name, wrong, found)


def check_record(name, make):
    apply(min_scale=0.25)
    surface = made(make, 2.0, 3)
    expect(name, surface, scale=2.0, skipped=0, skipped_in_a_row=0, skipped_at_floor=0)
    expect(name, surface, lowest_scale=2.0, highest_scale=2.0)
    for m in [INF, NAN]:  # 1, 0.5
        surface.step(m)
    expect(name, surface, scale=0.5, skipped=2, skipped_in_a_row=2, skipped_at_floor=0, lowest_scale=0.5)
    surface.step(1.0)
    expect(name, surface, scale=0.5, skipped=2, skipped_in_a_row=0, skipped_at_floor=0)
    for m in [INF] * 3:  # 0.25, and two at the floor
        surface.step(m)
    expect(name, surface, scale=0.25, skipped=5, skipped_in_a_row=3, skipped_at_floor=2, lowest_scale=0.25)
    for m in [1.0] * 3 + [INF]:  # growth to 0.5, which starts the counter anew, and back: not the fourth in a row
        surface.step(m)
    expect(name, surface, scale=0.25, skipped=6, skipped_in_a_row=1, skipped_at_floor=2)
    surface.step(INF)
    expect(name, surface, skipped=7, skipped_in_a_row=2, skipped_at_floor=3)
    for m in [1.0] * 15:
        surface.step(m)
    expect(name, surface, scale=8.0, skipped=7, skipped_in_a_row=0, lowest_scale=0.25, highest_scale=8.0)
    surface.step(INF)
    expect(name, surface, scale=4.0, skipped=8, skipped_in_a_row=1, lowest_scale=0.25, highest_scale=8.0)
    other = make(2.0, 3)
    expect(name, other, skipped=0, highest_scale=2.0)
    surface.set_scale(NAN)
    surface.step(INF)
    expect(name, surface, scale=0.25, skipped=9, highest_scale=8.0)


def check_nothing_is_built_unasked(name, make):
    """In a function nobody has asked for, there is no record, and that is said; a SavedModel could be made of it."""
    if not name.endswith("function"):
        return
    apply(min_scale=0.25)
    surface = make(2.0, 3)
    surface.step(INF)
    ops = surfaces.node_counts(surface.graph_defs())[1]
    assert not any("HashTable" in op for op in ops), (name, ops)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert stats_of(surface) == (1.0, None, None, None, None, None), name
    assert len(caught) == 1 and "once before the first step" in str(caught[0].message), name


def check_bounds_of_its_own(name, make):
    apply(min_scale=2.0**-14)
    surface = made(make, 1.0, 3)
    tfls_patch.set_bounds(getattr(surface, "optimizer", surface.owner), min_scale=0.5)
    surface = make_again(surface)
    for m in [INF] * 3:
        surface.step(m)
    expect(name, surface, scale=0.5, skipped=3, skipped_at_floor=2)


def make_again(surface):
    """A TF1 graph was built before its bounds were set: build its update anew."""
    if isinstance(surface, surfaces._Graph):
        with surface.graph.as_default():
            if hasattr(surface.owner, "update_loss_scale"):
                surface.train = surface.owner.update_loss_scale(tf.is_finite(surface.m))
            else:
                surface.train = surface.owner.update([surface.m])[0]
    return surface


def attempt(surface, m):
    """Takes a step, and returns the text of the error that it raised, or an empty text."""
    try:
        surface.step(m)
    except tfls_patch.LossScaleFloorError as error:
        assert surface.kind == "eager" and error.min_scale == 0.25 and error.skipped >= 1
        return str(error)
    except tf.errors.InvalidArgumentError as error:
        assert surface.kind != "eager"
        return str(error)
    return ""


def check_raise(name, make):
    apply(min_scale=0.25, at_floor="raise", patience=2)
    surface = make(0.5, 3)
    for m in [INF, INF, 1.0, INF]:  # never two in a row at the floor
        assert attempt(surface, m) == "", name
    text = attempt(surface, INF)
    for part in ("0.25", " 2 steps in a row", "forward pass", "float32", "never cleared", "learning rate", "diagnose"):
        assert part in text, (name, part, text)
    assert surface.state() == (0.25, 0, 1.0 - surfaces.RATE), (name, surface.state())
    surface.step(1.0)
    assert attempt(surface, INF) == "" and attempt(surface, INF), name
    expect(name, surface, skipped_in_a_row=2)
    assert attempt(surface, INF), "it goes on as long as it is stuck"
    assert attempt(surface, 1.0) == "", "a good batch is taken"
    assert surface.state()[1:] == (1, 1.0 - 3 * surfaces.RATE), (name, surface.state())


def check_patience_of_one(name, make):
    apply(min_scale=0.25, at_floor="raise", patience=1)
    surface = make(0.5, 3)
    assert attempt(surface, INF) == "" and attempt(surface, INF), name
    for m in [1.0, 1.0]:
        surface.step(m)
    surface.set_scale(0.1)  # below the floor: the step that raises brings it back, and sets the counter to 0
    assert attempt(surface, INF) and surface.state()[:2] == (0.25, 0), (name, surface.state())


def check_warn(name, make, said):
    apply(min_scale=0.25, at_floor="warn", patience=2)
    surface = make(0.25, 3)
    said()
    counts = []
    for m in [INF] * 5 + [1.0] + [INF] * 2:
        surface.step(m)
        counts.append(said())
    assert counts == [0, 1, 0, 0, 0, 0, 0, 1], (name, counts)


def check_skip(name, make, said):
    apply(min_scale=0.25)
    surface = made(make, 0.25, 3)
    said()
    for m in [INF] * 120:
        surface.step(m)
    assert said() == 0, name
    expect(name, surface, skipped_at_floor=120, skipped_in_a_row=120)


def check_regrowth(name, make):
    """From 2**-4 to 1 in two steps a doubling; from there on five."""
    apply(min_scale=2.0**-4, regrow_steps=2)
    surface = make(2.0**-4, 5)
    scales = []
    for m in [INF] + [1.0] * 18:
        surface.step(m)
        scales.append(surface.state()[0])
    expected = [2.0**-4] * 2 + [2.0**-3] * 2 + [2.0**-2] * 2 + [0.5] * 2 + [1.0] * 5 + [2.0] * 5 + [4.0]
    assert scales == expected, (name, scales, expected)
    apply(min_scale=2.0**-4, regrow_steps=0)
    surface = make(2.0**-4, 5)
    for m in [1.0] * 4:
        surface.step(m)
    assert surface.state()[:2] == (2.0**-4, 4), (name, surface.state())


def listening(kind, capture):
    """Returns ``said()``: how often the message was given since the last call."""
    if kind != "eager":
        printed = surfaces.listen_to_stderr()
        return lambda: printed().count("at its floor")

    def said():
        count = sum("at its floor" in str(each.message) for each in capture)
        del capture[:]
        return count

    return said


def main(mode):
    surfaces.start(mode)
    found = sorted(surfaces.surfaces(mode).items())
    with warnings.catch_warnings(record=True) as capture:
        warnings.simplefilter("always")
        for name, make in found:
            check_record(name, make)
            check_nothing_is_built_unasked(name, make)
            check_bounds_of_its_own(name, make)
            check_raise(name, make)
            check_patience_of_one(name, make)
            check_regrowth(name, make)
        by_kind = {kind: listening(kind, capture) for kind in ("eager", "graph")}
        for name, make in found:
            said = by_kind["eager" if name.endswith("eager") else "graph"]
            check_warn(name, make, said)
            check_skip(name, make, said)
    print("OK %d surfaces: %s" % (len(found), ", ".join(name for name, _ in found)))


main(sys.argv[1])
