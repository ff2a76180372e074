"""All or none, and the very same objects back."""

import pytest

from tfls_patch._ledger import Entry, Ledger


def make():
    class Base(object):
        def inherited(self):
            return "stock"

    class Owner(Base):
        def own(self):
            return "stock"

        @staticmethod
        def static():
            return "stock"

    return Owner


def entry(owner, name, replacement=lambda *_: "ours", leaf="leaf"):
    return Entry(leaf, None, owner, name, vars(owner).get(name), replacement, name in vars(owner))


def test_revert_restores_the_raw_attribute_and_deletes_what_was_inherited():
    owner, ledger = make(), Ledger()
    before = dict(vars(owner))
    ledger.replace([entry(owner, "own"), entry(owner, "static"), entry(owner, "inherited")])
    assert owner().own() == owner().inherited() == "ours" and len(ledger.entries()) == 3
    assert ledger.revert() == [] and dict(vars(owner)) == before and not ledger.entries()
    assert vars(owner)["static"] is before["static"]


def test_a_failure_in_the_middle_undoes_what_was_done():
    owner, ledger = make(), Ledger()
    before = dict(vars(owner))
    with pytest.raises(TypeError):
        ledger.replace([entry(owner, "own"), Entry("leaf", None, int, "real", None, None, True)])
    assert dict(vars(owner)) == before and not ledger.entries()


def test_what_somebody_else_has_replaced_since_is_left_alone():
    owner, ledger = make(), Ledger()
    ledger.replace([entry(owner, "own")])
    owner.own = foreign = lambda self: "theirs"
    assert [each.name for each in ledger.revert()] == ["own"] and vars(owner)["own"] is foreign


def test_leaves_are_reverted_apart():
    one, other, ledger = make(), make(), Ledger()
    ledger.replace([entry(one, "own", leaf="one"), entry(other, "own", leaf="other")])
    ledger.revert(["one"])
    assert one().own() == "stock" and other().own() == "ours" and len(ledger.entries("other")) == 1


class Interrupted(type):
    """A class of classes whose attributes cannot be set twice without an interruption from the keyboard."""

    def __setattr__(cls, name, value):
        super(Interrupted, cls).__setattr__(name, value)
        cls.__class__.left -= 1
        if cls.__class__.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", [1, 2])
def test_an_interruption_leaves_all_or_nothing_and_the_record_tells_which(left):
    Interrupted.left = -1
    owner, ledger = Interrupted("Owner", (), {"one": min, "other": max}), Ledger()
    before = dict(vars(owner))
    entries = [entry(owner, "one"), entry(owner, "other")]
    Interrupted.left = left
    with pytest.raises(KeyboardInterrupt):
        ledger.replace(entries)
    assert dict(vars(owner)) == before and not ledger.entries()

    ledger.replace(entries)
    Interrupted.left = left
    with pytest.raises(KeyboardInterrupt):
        ledger.revert()
    assert ledger.revert() == [], "what has been put back already is nobody else's"
    assert dict(vars(owner)) == before and not ledger.entries()
