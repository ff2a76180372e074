"""What pip knows of the installed packages, on every Python from 3.6 on."""

import collections

Distribution = collections.namedtuple("Distribution", ["name", "version", "requirements", "top_level"])
Distribution.__doc__ = """An installed distribution.

Attributes:
    name: As pip lists it.
    version: A text.
    requirements: A list of requirement texts, markers included.
    top_level: The set of packages that it installs, as far as it says so.
"""


def installed():
    """Returns every `Distribution` that this interpreter can import from; empty if the metadata cannot be read."""
    try:
        from importlib import metadata
    except ImportError:  # before Python 3.8
        return _by_setuptools()
    found = []
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:  # a folder that a broken install left behind has none
            top_level = (each.read_text("top_level.txt") or "").split()
            found.append(Distribution(name, each.version, list(each.requires or ()), set(top_level)))
    return found


def _by_setuptools():
    try:
        import pkg_resources
    except ImportError:
        return []
    found = []
    for each in pkg_resources.working_set:
        has_list = each.has_metadata("top_level.txt")
        top_level = each.get_metadata("top_level.txt").split() if has_list else ()
        found.append(Distribution(each.project_name, each.version, list(map(str, each.requires())), set(top_level)))
    return found


def providers(package):
    """Returns the distributions that install `package`: tensorflow-cpu, -gpu and others all install tensorflow."""
    return [each for each in installed() if package in each.top_level]


def version_of(name):
    """Returns the version of an installed distribution by its name, or None."""
    return next((each.version for each in installed() if _plain(each.name) == _plain(name)), None)


def wanted(distribution, name):
    """Returns what `distribution` asks of the package `name`, e.g. ``"<1.15,>=1.11.0"``, or None if nothing."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in distribution.requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if _plain(requirement.name) == name and (requirement.marker is None or requirement.marker.evaluate()):
            return str(requirement.specifier)
    return None


def satisfies(version, specifiers):
    """Whether a version is one that the specifiers allow."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifiers).contains(version, prereleases=True)


def _plain(name):
    return name.lower().replace("_", "-")
