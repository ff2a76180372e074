"""The page that the session ``requirements`` writes."""

import requirements_page
from environments import matrix


def test_the_page_has_every_row_and_nothing_on_it_failed():
    assert requirements_page.rows_of_page() == [row.tf for row in matrix.ROWS]
    assert requirements_page.FAILED not in requirements_page.PAGE.read_text(encoding="utf-8")
