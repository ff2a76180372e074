"""What the benchmarks share: the machine that they run on, and the statistics of times that were taken in turns.

Each round measures everything once, and what is compared is compared within the round: a machine that is slow for a
while is slow for all of them. Medians, because a machine is now and then very slow and never very fast.
"""

import os
import platform
import random
import textwrap

#: A load average above it means that the machine does something else.
QUIET = 1.0

SEED = 1
RESAMPLES = 2000


def add_busy(parser):
    """Adds the option with which a busy machine is measured all the same."""
    parser.add_argument("--busy", action="store_true", help="measure even if the machine does something else")


def refuse_a_busy_machine(parser, options):
    """Ends with a message if the machine does something else, unless ``--busy`` was said."""
    if os.getloadavg()[0] > QUIET and not options.busy:
        parser.error("the load average is %s, above %s: wait, or say --busy" % (load(), QUIET))


def load():
    """Returns the load average of the last minute, as text."""
    return "%.2f" % os.getloadavg()[0]


def machine():
    """Returns the name of the processor, and how many cores there are."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        name = names[0]
    except (OSError, IndexError):
        name = platform.processor() or platform.machine()
    return "%s, %d cores" % (name, os.cpu_count())


def system():
    """Returns the name and the version of the operating system."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, AttributeError, KeyError):
        name = platform.system()
    return "%s, kernel %s, %s" % (name, platform.release().split("-")[0], platform.machine())


def device(tf):
    """Returns the name of the device that TensorFlow computes on: that of the first GPU, or ``CPU``."""
    gpus = tf.config.experimental.list_physical_devices("GPU")
    if not gpus:
        return "CPU"
    details = getattr(tf.config.experimental, "get_device_details", lambda gpu: {})(gpus[0])
    return "%d x %s" % (len(gpus), details.get("device_name", "GPU"))


def quantile(values, share):
    """Returns the value below which that share of the values lies, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values):
    return quantile(values, 0.5)


def interval_of_median(values):
    """Returns the 95 % interval of the median, by bootstrap; the same each time."""
    draw = random.Random(SEED)
    count = len(values)
    medians = [median([values[draw.randrange(count)] for _ in range(count)]) for _ in range(RESAMPLES)]
    return quantile(medians, 0.025), quantile(medians, 0.975)


def ratios(times, reference):
    """Returns the ratios within the rounds."""
    assert len(times) == len(reference)
    return [one / float(other) for one, other in zip(times, reference)]


def differences(times, reference):
    """Returns the differences within the rounds."""
    assert len(times) == len(reference)
    return [one - other for one, other in zip(times, reference)]


def steps_to_share(errors, reference, every, share):
    """Returns the steps until errors fell by that share of what the reference fell by, or None if they never did.

    Args:
        errors: One for every so many steps, from before the first one on.
        reference: The same of a training to compare with.
        every: How many steps are between two of them.
        share: From 0 to 1.
    """
    wanted = reference[0] - share * (reference[0] - reference[-1])
    return next((number * every for number, error in enumerate(errors) if error <= wanted), None)


def fill(text):
    """Returns a paragraph in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120)


def table(header, rows):
    """Returns a table in Markdown."""
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| %s |" % " | ".join(map(str, line)) for line in lines)
