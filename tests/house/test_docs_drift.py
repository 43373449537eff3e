"""Documents drawn from the code are as the code would draw them now."""

from pathlib import Path

import pytest

from scripts.lib import docs


@pytest.mark.parametrize("document", docs.DOCUMENTS, ids=lambda path: path.name)
def test_a_drawn_document_is_up_to_date(document: Path) -> None:
    assert document.read_text() == docs.DOCUMENTS[document](), "run scripts/docs"
