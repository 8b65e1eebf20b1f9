"""The plugin is found by its entry point."""

from importlib.metadata import entry_points

import dpframe_text


def test_the_entry_point_is_the_package():
    (found,) = entry_points(group="dpframe", name="text")
    assert found.load() is dpframe_text
