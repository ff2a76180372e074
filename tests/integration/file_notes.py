"""Compares what the scenario ``files`` has noted: what a file keeps, who wrote it and who read it."""

import json
import os

WRITERS = READERS = ["stock", "patched"]


def load(folder, name):
    """Returns ``{name of the format: its note}``."""
    with open(os.path.join(str(folder), name + ".json")) as file:
        return json.load(file)["notes"]


def kept(written, came_back):
    """Returns what came back, in words: ``"scale, counter, weight"``, what there is of it, or the error."""
    for note, verb in ((written, "write"), (came_back, "read")):
        if "error" in note and ("state" not in note or verb == "write"):
            return "cannot %s: %s" % (verb, note["error"])
    names = [
        name
        for name, before, after in zip(("scale", "counter", "weight"), written["state"], came_back["state"])
        if before == after
    ]
    text = ", ".join(names) or "nothing"
    return text + (", but cannot train: " + came_back["error"] if "error" in came_back else "")


def table(folders):
    """Returns ``{format: {(writer, reader): what was kept}}``.

    Args:
        folders: ``{writer: folder}``, each with the notes of one writer and of all readers.
    """
    found = {}
    for writer, folder in folders.items():
        written = load(folder, "written")
        for reader in READERS:
            for name, note in load(folder, "read by " + reader).items():
                found.setdefault(name, {})[writer, reader] = kept(written[name], note)
    return found


def goes_on(written, came_back):
    """Whether the reader takes the very steps of the writer: the optimizer's own state is back as well."""
    return written.get("after") == came_back.get("after")


def complaints(folders, is_same_version=True):
    """Returns in what the patch makes a difference to files, beyond the loss scale that it lets be written.

    Args:
        folders: As for `table`.
        is_same_version: Whether writer and reader are of one version. If not, stock itself may not go on as it did.
    """
    said = []
    for name, cells in sorted(table(folders).items()):
        if len(cells) != 4 or len(set(cells.values())) != 1:
            said.append("%s: stock to stock keeps %s; %s" % (name, cells.get(("stock", "stock")), cells))
    notes = {writer: load(folder, "written") for writer, folder in folders.items()}
    if {name: note.get("names") for name, note in notes["stock"].items()} != {
        name: note.get("names") for name, note in notes["patched"].items()
    }:
        said.append("the files of a patched process hold other variables")
    for writer, folder in folders.items():
        said += ["written %s, %s" % (writer, each) for each in _differences(notes[writer], folder)]
        if is_same_version:
            said += ["written %s, %s" % (writer, each) for each in _detours(notes[writer], folder, writer)]
    return said


def _differences(written, folder):
    """Both readers take the same steps."""
    read = {reader: load(folder, "read by " + reader) for reader in READERS}
    for name in sorted(set(written) & set(read["stock"])):  # another version may not have all of them
        after = {reader: read[reader][name].get("after") for reader in READERS}
        if all(after.values()) and _weights(after["stock"]) != _weights(after["patched"]):
            yield "%s: the readers' weights differ: %s" % (name, after)


def _detours(written, folder, writer):
    """Where all came back, a reader like the writer takes the steps of the writer."""
    for name, note in sorted(load(folder, "read by " + writer).items()):
        if kept(written[name], note) == "scale, counter, weight" and not goes_on(written[name], note):
            yield "%s: it does not go on as the writer did: %s, %s" % (name, written[name]["after"], note["after"])


def _weights(states):
    return [state[2] for state in states]
