"""What a traced train step is made of: usage ``costs.py eager|graph stock|patched``.

Prints one line of JSON: for each surface that has a graph its ops and how many of each, in the whole step and on the
path of a step with finite gradients.
"""

import json
import sys

import surfaces


def costs_of(make):
    """Returns ``{"whole": {op: count}, "finite": {op: count}}``, or None where there is no graph."""
    graph_defs = make(2.0, 2000).graph_defs() if surfaces.class_of(make).runs_in_stock else None
    if graph_defs is None:
        return None
    return {"whole": surfaces.node_counts(graph_defs)[1], "finite": surfaces.finite_path_ops(graph_defs[0])}


def main(mode, part):
    surfaces.start(mode)
    surfaces.use_more_weights()
    if part == "patched":
        import tfls_patch

        assert tfls_patch.apply().enabled
    found = surfaces.all_surfaces(mode)
    costs = {name: costs_of(make) for name, make in sorted(found.items())}
    costs = {name: cost for name, cost in costs.items() if cost}
    print("COSTS " + json.dumps({"version": surfaces.tf.__version__, "costs": costs}))
    print("OK")


if __name__ == "__main__":
    main(*sys.argv[1:])
