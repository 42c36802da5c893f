"""Write every transcript anew: `python -m tests.wire.record`, or with names of features, those."""

from __future__ import annotations

import logging
import sys

from tests.wire.scenario import FOLDER, load, record


def main(features: list[str]) -> None:
    """Write the transcripts of these features, or of all, and remove what has no scenario any more."""
    logging.getLogger("backchannel").setLevel(logging.CRITICAL + 1)  # what fails in a scenario fails on purpose
    known = load()
    for feature in features or known:
        for version in known[feature].versions:
            path = known[feature].path(version)
            path.parent.mkdir(exist_ok=True)
            path.write_text(record(feature, version).text(), encoding="utf-8")
    if not features:
        wanted = {scenario.path(version) for scenario in known.values() for version in scenario.versions}
        for path in set(FOLDER.glob("*/*.txt")) - wanted:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
