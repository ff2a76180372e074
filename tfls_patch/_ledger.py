"""The record of what was replaced: makes a patch transactional and its reversal exact."""

from tfls_patch._record import Record


class Entry(Record):
    """One replaced attribute.

    Attributes:
        leaf: Name of the module that defines it.
        module: That module object; a purged and re-imported module is another one.
        owner: The class or module that holds the attribute.
        name: The attribute.
        original: The raw entry of ``vars(owner)``, or what it inherited.
        replacement: What stands there now.
        was_own: Whether ``vars(owner)`` had the attribute; if not, reversal deletes ours.
    """

    __slots__ = ()
    _fields = ("leaf", "module", "owner", "name", "original", "replacement", "was_own")

    @property
    def full_name(self):
        """Module, class if it is a method, and function."""
        owner = getattr(self.owner, "__qualname__", "")  # a module has none
        return ".".join(part for part in (self.leaf, owner, self.name) if part)


class Ledger(object):
    """Replaces attributes all or none, and puts the very same objects back."""

    def __init__(self):
        self._entries = []

    def entries(self, leaf=None):
        """Returns the entries, of one leaf module or of all."""
        return [entry for entry in self._entries if leaf in (None, entry.leaf)]

    def replace(self, entries):
        """Puts every replacement in place; if one cannot be, the ones before it are undone and the error goes on."""
        done = []
        try:
            for entry in entries:
                done.append(entry)
                setattr(entry.owner, entry.name, entry.replacement)
        except BaseException:  # an interruption from the keyboard is one
            for entry in reversed(done):
                if is_in_place(entry):
                    _restore(entry)
            raise
        self._entries.extend(done)

    def revert(self, leaves=None):
        """Puts the originals back, last first.

        Args:
            leaves: Only the entries of these leaf modules; None for all.

        Returns:
            The entries that were left alone because something else has replaced our replacement since.
        """
        chosen = [entry for entry in self._entries if leaves is None or entry.leaf in leaves]
        foreign = []
        for entry in reversed(chosen):
            if is_in_place(entry):
                _restore(entry)
            elif vars(entry.owner).get(entry.name) is not entry.original:
                foreign.insert(0, entry)
            self._entries.remove(entry)  # one by one: what an interruption leaves in place stays on record
        return foreign


def is_in_place(entry):
    """Whether our replacement still stands where it was put."""
    return vars(entry.owner).get(entry.name) is entry.replacement


def is_current(entry):
    """Whether the owner is still the class that its module has, which a reload changes."""
    return entry.owner is entry.module or vars(entry.module).get(entry.owner.__name__) is entry.owner


def _restore(entry):
    if entry.was_own:
        setattr(entry.owner, entry.name, entry.original)
    else:
        delattr(entry.owner, entry.name)
