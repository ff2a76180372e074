"""Every surface against the reference, on scripts that hypothesis draws: usage below.

    conformance.py eager|graph|jax stock FILE [SEED [COUNT [SURFACE]]]
    conformance.py eager|graph|jax patched FILE [SEED [COUNT [SURFACE]]]

The first, in which the patch is never imported, writes what stock makes of scripts into FILE. The second plays the same
with a floor of 1 and compares to the bit; then COUNT scripts on each surface, under several rules, are compared with
the reference after each step: scale, counter, weights, iterations. With SURFACE only those with that in their name.

What fails is shrunk and printed in a form to be pasted into ``scripts.KEPT``. With a COUNT below 100, for a quick look,
it is not shrunk.
"""

import json
import os
import sys
import time
import warnings

if sys.argv[1] == "jax":
    os.environ["KERAS_BACKEND"] = "jax"

import reference
import scripts
import surfaces
from scripts import FIXED

RULES = 3  # under which a surface is traced
OTHER_MULTIPLIERS = (2.0, 4.0, 8.0)
#: Ops that finite steps may pass in place of others: Keras 3 compares by ``>=``, contrib nests its branches otherwise.
IN_PLACE = {"GreaterEqual": ["Equal"], "Switch": ["Add", "AddV2"]}


class Run(object):
    """One run of this script."""

    def __init__(self, mode, seed, count):
        self.mode, self.seed, self.count = mode, seed, count
        self.drawn = {}

    def draw(self, strategy, count, key):
        """Draws once for all surfaces that take the same."""
        if key not in self.drawn:
            self.drawn[key] = scripts.draw(strategy, count, self.seed)
        return self.drawn[key]

    def setups(self, kind, bounds=None):
        """The setups for a kind of surface: `FIXED`, and others from the seed."""
        multipliers = OTHER_MULTIPLIERS if kind.takes_multiplier else (2.0,)
        key = (multipliers, kind.is_half, bounds)
        strategy = scripts.setups(multipliers, kind.is_half, bounds)
        return self.draw(strategy, 1 if bounds else RULES - 1, key)

    def scripts(self, setup, kind, is_sane=False):
        return self.draw(self.strategy(setup, kind, is_sane), -(-self.count // RULES), (setup, kind.is_half, is_sane))

    def rules(self, kind):
        """All setups for a kind of surface, the fixed one first."""
        return [scripts.confined(setup) if kind.is_reordered else setup for setup in [FIXED] + self.setups(kind)]

    @staticmethod
    def strategy(setup, kind, is_sane):
        return scripts.scripts(setup, kind.is_half, is_sane)


def make(found, setup):
    """Makes a surface whose traces have this setup in them."""
    surfaces.Surface.multiplier = setup.multiplier
    return found(2.0, setup.growth_interval)


def in_hex(states):
    return [[scale.hex(), good, [weight.hex() for weight in weights], steps] for scale, good, weights, steps in states]


def trajectories(run, name, found):
    """What a surface makes of the scripts for the comparison with stock."""
    kind = surfaces.class_of(found)
    played = []
    for setup in run.setups(kind, (1.0, 2.0**126)):
        surface = make(found, setup)
        those = run.scripts(setup, kind, True)
        played += [in_hex(states) for states in surface.play(those)]
    return played


def check_contract(run, name, found, apply):
    kind = surfaces.class_of(found)
    for i, setup in enumerate(run.rules(kind)):
        apply(min_scale=setup.min_scale, max_scale=setup.max_scale, regrow_steps=setup.regrow_steps)
        surface = make(found, setup)
        those = run.scripts(setup, kind)
        kept = [] if i else [script for script in scripts.KEPT if not (kind.is_reordered and script.initial > 1e30)]
        wrong = first_wrong(surface, setup, kept + those)
        if wrong is None:
            continue
        simplest = run.count >= 100 and scripts.shrunk(
            run.strategy(setup, kind, False),
            len(those),
            run.seed,
            lambda script: first_wrong(surface, setup, [script]) is not None,
        )
        report(run, name, surface, setup, simplest or wrong)


def expected_of(surface, setup, script):
    states = reference.play(surface.adapted(script), surface.reference(setup))
    return states[surface.every - 1 :: surface.every]


def first_wrong(surface, setup, those):
    """Returns the first of the scripts on which surface and reference disagree."""
    for script, states in zip(those, surface.play(those)):
        if not agree(states, expected_of(surface, setup, script)):
            return script
    return None


def agree(states, expected):
    """Equality, with NaN equal to NaN, where the surface counts iterations at all."""
    if len(states) != len(expected):
        return False
    for one, other in zip(states, expected):
        if one[3] is None:
            one, other = one[:3], other[:3]
        if repr(one) != repr(other):
            return False
    return True


def report(run, name, surface, setup, script):
    print("FAILED: %s, mode %s, seed %d" % (name, run.mode, run.seed))
    print("under  %s" % scripts.spelled(setup))
    print("    %s," % scripts.spelled(script))
    for found, expected in zip(surface.play([script])[0], expected_of(surface, setup, script)):
        print("found    %r\nexpected %r" % (found, expected))
    sys.exit(1)


def surfaces_of(mode):
    if mode != "jax":
        return surfaces.all_surfaces(mode)
    import jax_surface

    return {"keras 3 stateless": jax_surface.StatelessSurface}


def main(mode, part, path, seed="", count="200", only=""):
    run = Run(mode, int(seed or time.time()), int(count))
    surfaces.start(mode)
    surfaces.use_more_weights()
    found = surfaces_of(mode)
    found = {name: make for name, make in sorted(found.items()) if only in name}
    print("seed", run.seed)
    if part == "stock":
        assert "tfls_patch" not in sys.modules
        write_stock(run, found, path)
    else:
        check_patched(run, found, path)
    print("OK %d surfaces" % len(found))


def write_stock(run, found, path):
    played, costs = {}, {}
    for name, make in found.items():
        cls = surfaces.class_of(make)
        if cls.runs_in_stock:
            costs[name] = cost_of(make(2.0, FIXED.growth_interval))
        if cls.runs_in_stock and cls.is_bounded_by_stock:
            played[name] = trajectories(run, name, make)
    with open(path, "w") as file:
        json.dump({"seed": run.seed, "played": played, "costs": costs}, file)


def cost_of(surface):
    """Returns ``{op: count}`` of what a finite step passes, or None where there is no graph."""
    graph_defs = surface.graph_defs()
    return graph_defs and surfaces.finite_path_ops(graph_defs[0])


def check_cost(name, cost, stock):
    """No op more than in stock, except one in place of another."""
    more = {op: count - stock.get(op, 0) for op, count in cost.items() if count > stock.get(op, 0)}
    less = {op: count - cost.get(op, 0) for op, count in stock.items()}
    unpaid = [op for op in more if more[op] > sum(less.get(other, 0) for other in IN_PLACE.get(op, []))]
    if unpaid or sum(cost.values()) > sum(stock.values()):
        surfaces.fail("%s: a finite step passes more than in stock: %s" % (name, more))


def check_patched(run, found, path):
    import tfls_patch

    def apply(**bounds):
        with warnings.catch_warnings():  # of traces with the bounds before: they are meant to be old here
            warnings.simplefilter("ignore", tfls_patch.TflsPatchWarning)
            tfls_patch.apply(**bounds)

    with open(path) as file:
        stock = json.load(file)
    run.seed = stock["seed"]
    for name, make in found.items():
        began = time.process_time()
        if name in stock["played"]:
            apply(min_scale=1, max_scale=2.0**126, regrow_steps=0)
            if trajectories(run, name, make) != stock["played"][name]:
                surfaces.fail("%s, seed %d: with a floor of 1 it is not stock" % (name, run.seed))
        between = time.process_time()
        apply(min_scale=FIXED.min_scale, max_scale=FIXED.max_scale, regrow_steps=0)
        if stock["costs"].get(name):
            check_cost(name, cost_of(make(2.0, FIXED.growth_interval)), stock["costs"][name])
        check_contract(run, name, make, apply)
        print("%-45s stock %.1f s, contract %.1f s" % (name, between - began, time.process_time() - between))


if __name__ == "__main__":
    main(*sys.argv[1:])
