"""The table in docs/authorization.md: each file and test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "authorization.md").read_text(encoding="utf-8").partition("wants of clients\n")[2]
ROWS = re.findall(r"^\| (?!page|---).*\|$", TABLE.partition("\n## ")[0], re.MULTILINE)


def test_every_row_has_code_and_tests_that_exist() -> None:
    assert len(ROWS) >= 30
    for row in ROWS:
        *_, code, tests, _ = row.split("|")
        files, named = re.findall(r"`(\w+\.py)`", code), re.findall(r"`(\w+\.py)::(\w+)`", tests)
        assert files and named, row
        for file in files:
            assert (ROOT / "src/backchannel/client/auth" / file).exists(), row
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests/client/auth" / file).read_text(encoding="utf-8"), row
