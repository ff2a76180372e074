"""Every surface of this TensorFlow against the contract: usage ``rule.py eager|graph``.

In one process: stock first, then patched with a floor of 1 (must be stock's trajectory to the bit), then with other
bounds (must be the reference's), 400 non-finite steps, bad restored scales, graph sizes, and back to stock.
"""

import sys
import warnings

import numpy as np

import surfaces
from reference import LossScale, Script, Setup, Training, play

INF, NAN = float("inf"), float("nan")
#: Calibration down to the floor, growth, a burst, recovery; intervals of 3 make growth happen often.
SCRIPT = [INF] * 6 + [1.0] * 8 + [NAN, 1.0, INF] + [1.0] * 7 + [INF] * 3 + [1.0] * 4
INITIAL, INTERVAL = 16.0, 3


def run(make, script, initial=INITIAL, interval=INTERVAL, restored=None):
    """Returns the states after each step, and the surface."""
    surface = make(initial, interval)
    if restored is not None:
        surface.set_scale(restored)
    states = []
    for m in script:
        surface.step(m)
        states.append(surface.state())
    return states, surface


def reference(script, low, high):
    """The states that the contract asks for."""
    setup = Setup(low, high, 0, INTERVAL, 2.0)
    script = Script(INITIAL, [("step", m) for m in script])
    states = play(script, Training(LossScale(setup), [1.0]))
    return [(scale, good, weights[0]) for scale, good, weights, _ in states]


def same(one, other):
    return np.array_equal(np.array(one, np.float64), np.array(other, np.float64))


def check(condition, name, *details):
    if not condition:
        surfaces.fail("%s: %s" % (name, " ".join(str(detail) for detail in details)))


def main(mode):
    surfaces.start(mode)
    found = surfaces.surfaces(mode)
    stock = {}
    for name, make in sorted(found.items()):
        states, surface = run(make, SCRIPT)
        stock[name] = states, cost_of(surface)
        floor = 1.0 if surface.is_bounded_by_stock else 2.0**-126
        check(same(states, reference(SCRIPT, floor, 2.0**126)), name, "stock is not what the reference says", states)

    contrib = "contrib" in found and run(surfaces.ContribDefaultSurface, SCRIPT)[0]

    import tfls_patch

    if contrib:
        check_contrib_defaults(tfls_patch, contrib)
    for name, make in sorted(found.items()):
        check_stock(tfls_patch, name, make, stock[name][0])
        check_bounds(tfls_patch, name, make)
        check_bad_scales(tfls_patch, name, make)
        check_cost(name, make, stock[name][1])
    tfls_patch.revert()
    for name, make in sorted(found.items()):
        states, _ = run(make, SCRIPT)
        check(same(states, stock[name][0]), name, "reverted, it is not stock", states)
    print("OK %d surfaces: %s" % (len(found), ", ".join(sorted(found))))


def check_stock(tfls_patch, name, make, expected):
    """A floor of 1 is stock to the bit, where stock has one."""
    apply(tfls_patch, min_scale=1, max_scale=2.0**126)
    states, surface = run(make, SCRIPT)
    if surface.is_bounded_by_stock:
        check(same(states, expected), name, "min_scale=1 differs from stock", states, expected)
    else:
        check(same(states, reference(SCRIPT, 1, 2.0**126)), name, "min_scale=1", states)


def check_bounds(tfls_patch, name, make):
    for low, high in [(1e-4, 2.0**126), (2.0**-14, 4.0), (0.3, 0.3), (32.0, 100.0)]:
        apply(tfls_patch, min_scale=low, max_scale=high)
        states, _ = run(make, SCRIPT)
        check(same(states, reference(SCRIPT, low, high)), name, (low, high), states, reference(SCRIPT, low, high))
    apply(tfls_patch, min_scale=1e-4, max_scale=2.0**126)
    states, surface = run(make, [NAN] * 400)
    check(states[-1] == (float(np.float32(1e-4)), 0, 1.0), name, "after 400 non-finite steps", states[-1])
    surface.step(1.0)
    check(surface.state()[2] == 1.0 - surfaces.RATE, name, "the step after the burst", surface.state())


def check_bad_scales(tfls_patch, name, make):
    """Restored 0, inf, NaN, negative and out-of-bounds scales come inside when they next change, weights unharmed."""
    apply(tfls_patch, min_scale=0.25, max_scale=64.0)
    for restored, expected in [(0.0, 0.25), (INF, 64.0), (NAN, 0.25), (-4.0, 0.25), (0.01, 0.25), (1e30, 64.0)]:
        states, surface = run(make, [INF], restored=restored)
        check(states[-1] == (expected, 0, 1.0), name, "restored", restored, states)
        surface.step(1.0)
        check(surface.state()[2] == 1.0 - surfaces.RATE, name, "step after", restored, surface.state())


def cost_of(surface):
    """Returns ``(nodes in the traced step, nodes that a finite step passes)``, or None where there is no graph."""
    graph_defs = surface.graph_defs()
    if graph_defs is None:
        return None
    return surfaces.node_counts(graph_defs)[0], surfaces.finite_path_nodes(graph_defs[0])


def check_contrib_defaults(tfls_patch, stock):
    """Contrib's manager counts bad steps too, and has other ratios: stock with a floor of 1, its own floor below."""
    apply(tfls_patch, min_scale=1, max_scale=2.0**126)
    states, _ = run(surfaces.ContribDefaultSurface, SCRIPT)
    check(same(states, stock), "contrib defaults", "min_scale=1 differs from stock", states, stock)
    apply(tfls_patch, min_scale=0.25)
    states, _ = run(surfaces.ContribDefaultSurface, [INF] * 3 + [1.0] + [INF] * 60)
    scales = [state[0] for state in states]
    expected = [np.float32(INITIAL)] + [np.float32(INITIAL) * np.float32(0.8)] * 2
    check(same(scales[:3], expected), "contrib defaults", scales[:3])
    check(scales[-1] == 0.25, "contrib defaults", scales[-5:])


def check_cost(name, make, stock):
    """Finite steps pass no more nodes than stock. What is more is in the branch of the steps that are skipped."""
    if stock is None:
        return
    _, surface = run(make, [1.0, INF, 1.0])
    total, passed = cost_of(surface)
    print("%s: %d nodes, stock %d; finite steps pass %d, stock %d" % (name, total, stock[0], passed, stock[1]))
    check(passed <= stock[1], name, "a finite step passes more nodes than stock:", passed, stock[1])
    check(passed < total, name, "there is no branch for skipped steps?")


def apply(tfls_patch, **bounds):
    with warnings.catch_warnings():  # of traces with the bounds before: they are meant to be old here
        warnings.simplefilter("ignore", tfls_patch.TflsPatchWarning)
        tfls_patch.apply(**bounds)


if __name__ == "__main__":
    main(sys.argv[1])
