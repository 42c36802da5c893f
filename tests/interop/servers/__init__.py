"""Foreign servers, and what the matrix checks of each."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.checks", f"{__name__}.line")
