"""The picture: per world, loss and loss scale of every arm over the steps."""

import numpy as np

from tfls_patch._settings import DEFAULT_MIN_SCALE

#: Told apart in grey too, and by people to whom red and green are the same. Where lines meet, the widest lies below.
COLOURS = {
    "float32": "#b0b0b0",
    "stock": "#d55e00",
    "patched": "#0072b2",
    "by_hand": "#e6a8d0",
    "subclass": "#009e73",
}
WIDTHS = {"float32": 6.0, "stock": 3.4, "patched": 1.5, "by_hand": 4.0, "subclass": 1.5}
#: Lower ones lie below.
LEVELS = {"float32": 2, "by_hand": 2.2, "stock": 2.4, "subclass": 2.6, "patched": 2.8}
BURST_COLOUR = "#f7e3a1"

#: A batch is small and its loss noisy: the line is a mean over so many steps.
SMOOTH_OVER = 25

#: Where a scale of 0 is drawn on an axis of logarithms: below everything that float32 holds as a normal number.
DRAWN_AS_ZERO = 2.0 ** -134


def save(path, worlds, results):
    """Draws all worlds into one PNG.

    Args:
        path: Where to.
        worlds: A list of `World`.
        results: A list, parallel to it, of dicts: key of the arm -> what its runs returned. The first is drawn.
    """
    # Not pyplot: it would look for a window system, and there may be none.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 12, "legend.fontsize": 11}):
        figure = Figure(figsize=(12, 4.2 * len(worlds)), dpi=120)
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(worlds), 2, squeeze=False)
        for (loss_axes, scale_axes), world, runs in zip(grid, worlds, results):
            result = {key: run[0] for key, run in runs.items()}
            loss_axes.set_title(world.title, loc="left", fontsize=14, fontweight="bold", pad=12)
            for axes in (loss_axes, scale_axes):
                _prepare(axes, world)
            _draw_losses(loss_axes, world, result)
            _draw_scales(scale_axes, world, result)
        figure.tight_layout(h_pad=2.5, w_pad=2.5)
        figure.savefig(path)


def _prepare(axes, world):
    if world.bad_steps:
        axes.axvspan(
            world.bad_steps[0], world.bad_steps[-1] + 1, color=BURST_COLOUR, linewidth=0, zorder=0, label="NaN batches"
        )
    axes.set_xlabel("step")
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_losses(axes, world, results):
    for key, arm in world.arms.items():
        losses = _on_common_axis(world, arm, results[key]["loss"])
        axes.plot(_smooth(losses), **_style(key, arm))
        good = np.flatnonzero(np.isfinite(losses))
        if not results[key]["weights_finite"] and len(good):
            level = losses[good[-SMOOTH_OVER:]].mean()
            axes.plot(good[-1], level, "X", color=COLOURS[key], markersize=13, zorder=5)
            _annotate(axes, key, "NaN from here on", (good[-1], level), (14, 16), "left")
        elif True not in results[key]["applied"]:
            _annotate(axes, key, "never takes a step", (len(losses) / 2, np.nanmean(losses)), (0, -26), "center")
    axes.set_yscale("log")
    axes.set_ylabel(world.experiment.wording.error)
    axes.legend(loc="center right" if world.key == "floor" else "upper right")


def _draw_scales(axes, world, results):
    for key, arm in world.arms.items():
        if not arm.float16:
            continue
        scales = _on_common_axis(world, arm, results[key]["scale"])
        drawn = np.log2(np.maximum(scales, DRAWN_AS_ZERO))
        axes.plot(drawn, drawstyle="steps-post", **_style(key, arm))
        if scales[-1] == 0:
            _annotate(axes, key, "scale is 0", (len(drawn), drawn[-1]), (-2, 8), "right")
    if world.key == "floor":
        _rule(axes, 1.0, "stock's floor: 1")
    _rule(axes, DEFAULT_MIN_SCALE, "min_scale: $2^{%d}$" % np.log2(DEFAULT_MIN_SCALE))
    axes.yaxis.set_major_formatter(_power_of_two())
    axes.set_ylabel("loss scale")
    axes.legend(loc="upper right" if world.key == "floor" else "center right")


def _style(key, arm):
    return {"color": COLOURS[key], "linewidth": WIDTHS[key], "zorder": LEVELS[key], "label": arm.name}


def _on_common_axis(world, arm, values):
    """Returns one value a step of the world, NaN in the steps that the arm has left out."""
    values = np.array(values, float)
    if arm.burst or not world.bad_steps:
        return values
    return np.insert(values, [world.bad_steps[0]] * len(world.bad_steps), np.nan)


def _smooth(values):
    """A centred mean over finite neighbours; not finite where the value itself is not."""
    finite = np.isfinite(values)
    window = np.ones(min(SMOOTH_OVER, len(values)))
    total = np.convolve(np.where(finite, values, 0), window, "same")
    return np.where(finite, total / np.maximum(np.convolve(finite, window, "same"), 1), np.nan)


def _rule(axes, scale, text):
    axes.axhline(np.log2(scale), color="black", linestyle=":", linewidth=1.3)
    axes.annotate(
        text,
        (1, np.log2(scale)),
        xycoords=axes.get_yaxis_transform(),
        xytext=(-2, 5),
        textcoords="offset points",
        ha="right",
        fontsize=11,
    )


def _annotate(axes, key, text, point, offset, align):
    axes.annotate(text, point, xytext=offset, textcoords="offset points", ha=align, color=COLOURS[key], fontsize=12)


def _power_of_two():
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda exponent, position: "$2^{%d}$" % exponent)
