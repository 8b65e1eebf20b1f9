"""Figures of a record, for papers, pages and notebooks.

They need matplotlib, which comes with the extra `plot` and is imported with the first figure.
"""

from typing import TYPE_CHECKING, Any

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dpframe.report.figures.gallery import draw, draw_power, draw_scores, kinds, score_kinds

__all__ = ["draw", "draw_power", "draw_scores", "kinds", "need_matplotlib", "score_kinds"]


def need_matplotlib() -> None:
    """Raise DpframeError if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DpframeError(
            f"figures need matplotlib ({error}); it comes with: pip install 'dpframe[plot]'"
        ) from None


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_matplotlib()
    from dpframe.report.figures import gallery

    return getattr(gallery, name)
