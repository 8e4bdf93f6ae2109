"""What the client programs share: how they are called and how they report.

    PROGRAM URL SCENARIO [ARGUMENT...]

A scenario is a function of the URL and the arguments. What it returns is
printed as one line of JSON. A scenario that fails raises, and the program ends
with a status other than 0.
"""

import collections
import json
import re
import sys

COUNT = 20              # messages in the scenarios that pass a few
LARGE = 10 * 1024 * 1024  # bytes of body in the scenario "large"


def main(scenarios):
    url, name, *args = sys.argv[1:]
    print(json.dumps(scenarios[name](url, *args), sort_keys=True))


def outcomes():
    """A tally of outcomes by name."""
    return collections.Counter()


def outcome(state):
    """The standard's name for a delivery state of Proton's."""
    return str(state).lower()


def note(report, remote):
    """Adds to report what the receiver said beside the bare outcome."""
    if remote.condition:
        report["condition"] = remote.condition.name
        report["description"] = remote.condition.description
    if outcome(remote.type) == "modified":
        report["failed"] = remote.failed
        report["undeliverable"] = remote.undeliverable
        if remote.annotations:
            report["annotations"] = {str(k): v for k, v in remote.annotations.items()}


def without_chance(address):
    """A dynamic address without the part that differs from run to run."""
    return re.sub(r"[A-Za-z0-9+_]{15}$", "*", address)
