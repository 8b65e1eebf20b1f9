"""The report of a run in the terminal, from the record alone."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import group, phrases, sentences, words
from dpframe.report.group import Group, Map, Spot, groups, maps, parts, settings, telling, weight
from dpframe.report.terminal import legend
from dpframe.report.terminal.elements import GAP, STYLE, Ink, beside, cuts, padded, show, wrapped
from dpframe.report.terminal.plots import against, growths, plots
from dpframe.report.terminal.tables import fits, fits_wide, grid_of, grid_tables, list_tables
from dpframe.report.versions import blocks, versions
from dpframe.results.model import Record
from dpframe.results.rows import share

MOST_SLACK = 60  # cells whose slack is printed; the record has all
WIDEST_NAME = 0.3  # share of the width that names may take before they get lines of their own
MOST_LINES = 12  # longer lists end in a count of the rest: the record has them all
NARROW = 16  # least columns of a mechanism in the version matrix; below, each place gets lines


def render(record: Record, console: Console, *, numbers: bool = False) -> None:
    """Print the whole report: verdict, map, tables, issues, summary.

    `numbers` adds tables for the groups on the map; other groups always get a table.
    """
    ink, width = Ink.of(console), console.width
    found = groups(record.cells)
    unadjusted = sentences.warning(record)
    warning = [ink.text(f"! {unadjusted}", STYLE["failed"])] if unadjusted else []
    drawn = mapped(found)
    # Groups in which every cell failed appear only in the list of failures.
    ran = [one for one in found if any(spot.done for spot in one.spots)]
    on_map = set(map(id, drawn))
    listed = [one for one in ran if numbers or id(one) not in on_map]
    blank = ink.text("")
    show(console, legend.title(record, found, ink), *headline(record, ink), *warning)
    show(console, legend.verdicts_key(found, ink, width))
    if drawn:
        show(console, blank, *heat(drawn, ink, width))
    if listed:
        _numbers(listed, console)
    if numbers:
        show(console, *_slack(record, ink, width))
    show(console, *plots(found, ink, width), *growths(found, record, ink, width))
    console.print()
    console.rule(style="dim", characters="-" if ink.ascii_only else "─")
    issues = issue_lines(record, ink)
    for part in (issues, matrix(record, ink, width), overview(record, ink, width)):
        if lines := list(part):
            show(console, *lines, blank)
    if len(listed) < len(ran):
        show(console, ink.text("The numbers of every cell: --numbers", "dim"))
    show(console, *warning, *summary_lines(record, ink))


def _numbers(found: list[Group], console: Console) -> None:
    """Print tables of the results below the meaning of their signs."""
    ink = Ink.of(console)
    tables = list(_tables(found, ink, console.width))
    console.print()
    show(console, *legend.numbers_key(found, set(ink.seen), ink, console.width))
    show(console, *tables, *against(found, ink, console.width))


def _slack(record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Write the parts of claimed − certified ε for each cell, and the meanings of the parts."""
    cells = [cell for cell in record.cells if cell.slack is not None]
    if not cells:
        return
    several = group.repeated(record.cells)
    used: set[str] = set()
    yield Text()
    yield from ink.folded("Slack: claimed − certified ε, in parts that add up to it", "bold", width)
    for cell in cells[:MOST_SLACK]:
        found = phrases.slack(cell)
        used |= {part.name for part in found}
        ratio = words.lower(share(cell))
        name = group.cell_name(cell, repeated=several)
        line = f"{name}: {', '.join(map(str, found)) or 'none'}"
        yield from ink.folded(f"{line}; certified ÷ claimed {ratio}", "", width)
    if len(cells) > MOST_SLACK:
        yield ink.text(f"… and {len(cells) - MOST_SLACK} more cells; see the record", "dim")
    for name, meaning in phrases.meanings_of_slack().items():
        if name in used:
            yield from ink.folded(f"{name}: {meaning}", "dim", width)


def _tables(found: list[Group], ink: Ink, width: int) -> Iterator[Text | Table]:
    """Return a table for each group; groups that sweep nothing share one."""
    if single := [one for one in found if not one.keys]:
        yield Text()
        for lines in list_tables(single, ink, width):
            yield from lines
    laid_out = [
        (
            one,
            [
                (name, part, grid_of(part, ink) if len(part.keys) == group.TABLE_KEYS else None)
                for name, part in parts(one)
            ],
        )
        for one in found
        if one.keys
    ]
    grids = [grid for _, cut in laid_out for _, _, grid in cut if grid is not None]
    wide = all(fits_wide(grid, width) for grid in grids)
    fit = all(fits(grid, width) for grid in grids)
    listed = [part for _, cut in laid_out for _, part, grid in cut if grid is None or not fit]
    lists = iter(list_tables(listed, ink, width) if listed else ())
    for one, cut in laid_out:
        yield Text()
        yield legend.group_title(one, ink, width)
        for name, _, grid in cut:
            if name:
                yield from [Text(), *ink.folded(name, "bold", width)]
            yield from grid_tables(grid, ink, width, wide=wide) if grid and fit else next(lists)


def render_notes(record: Record, console: Console) -> None:
    """Print the notes of estimators and of the engine on every cell."""
    ink = Ink.of(console)
    for cell in record.cells:
        notes = cell.estimate.notes if cell.estimate else []
        console.print()
        place = settings(cell.swept, cell.swept)
        show(console, ink.text(" · ".join([*group.names(cell), *place]), "bold"))
        show(console, *(ink.text(f"  {note}") for note in notes))


def overview(record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Summarise each mechanism in a few lines, as tables may have scrolled off the screen."""
    results = list(phrases.mechanisms(record))
    if len(record.cells) == len(results) and all(one.tested for one in results):
        return  # each mechanism has one cell, which the table shows
    names = [ink.line(one.label) for one in results]
    lead = max((Text(name).cell_len for name in names), default=0) + GAP
    beside = lead - GAP <= width * WIDEST_NAME
    indent = lead if beside else min(GAP, width // 8)
    for name, one in zip(names, results, strict=True):
        if not beside:
            yield from ink.folded(name, "bold", width)
        start = name if beside else ""
        tallies = [ink.text(text, STYLE[state]) for state, text in one.tallies]
        texts = [ink.joined(tallies, width - indent)]
        which = "worst: " if one.several else ""
        texts.append(ink.text(f"{which}{one.worst}", "" if one.tested else STYLE["failed"]))
        if not one.decided:
            texts.append(ink.text("nothing was decided", STYLE["inconclusive"]))
        for line in (line for text in texts for line in wrapped(text, width - indent)):
            yield Text.assemble((padded(start, indent), "bold"), line)
            start = ""


def issue_lines(record: Record, ink: Ink) -> Iterator[Text]:
    """List the issues of a record, the gravest first."""
    for kind in phrases.issues(record):
        for text, where, _ in kind.found[:MOST_LINES]:
            line = ink.text("")
            line.append(ink.plain(f"{kind.sign} {text}"), STYLE[kind.state])
            if where:
                line.append(ink.plain(f"\n    at {where}"))
            yield line
        if (rest := sum(issue.cells for issue in kind.found[MOST_LINES:])) > 0:
            more = f"{kind.sign} … and {rest} more such cells; see the record"
            yield ink.text(more, STYLE[kind.state])


def headline(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the verdict without its confidence, and the worst cell."""
    yield _verdict(record, ".", ink)
    if len(record.cells) > 1 and (text := sentences.worst(record)):
        yield ink.text(f"Worst: {text}")


def _verdict(record: Record, rest: str, ink: Ink) -> Text:
    found = sentences.verdict(record)
    sentence = ink.text("")
    sentence.append(ink.plain(found.finding), STYLE["violated"] if found.grave else "bold")
    return sentence.append(ink.plain(found.others + rest), "bold")


def summary_lines(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the limits of the verdict, then the expectations, then the verdict."""
    yield from map(ink.text, sentences.caveats(record))
    if expected := sentences.expectations(record):
        yield ink.text(expected.sentence, "" if expected.met else STYLE["failed"])
        if expected.surprises:
            yield ink.text(expected.surprises)
    yield _verdict(record, sentences.verdict(record).rest, ink)


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """Draw the version matrix: a row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    tables = blocks(found)
    if any(width // (1 + len(table.mechanisms)) < NARROW for table in tables):
        for name, places in found.rows:
            yield from ink.folded(name, "bold", width)
            for mechanism, place in zip(found.mechanisms, places, strict=True):
                if place is not None:
                    text = ink.text(f"  {mechanism}: {place.text}", STYLE[place.verdict])
                    yield from wrapped(text, width)
        return
    for number, part in enumerate(tables):
        yield from [ink.text("")] * (number > 0)
        table = ink.table()
        for head in ("environment", *part.mechanisms):
            table.add_column(ink.text(head), overflow="fold", vertical="top")
        for name, places in part.rows:
            cells = [
                ink.text("–") if place is None else ink.text(place.text, STYLE[place.verdict])
                for place in places
            ]
            table.add_row(ink.text(name), *cells)
        yield table


SHADES = (
    (0.0, "·", "0"),
    (0.5, "░", "up to 0.5"),
    (1.0, "▒", "up to 1"),
    (10.0, "▓", "up to 10"),
    (float("inf"), "█", "more"),
)
"""Shades: largest certified ε divided by claimed ε, sign, and that limit in words."""

WIDEST_LEAD = 0.5  # share of the width that names of rows may take before they get own lines


def mapped(found: list[Group]) -> list[Group]:
    """Return the groups of a sweep that have a certified bound beside a claim."""
    return [
        one
        for one in found
        if one.keys and any(weight(cell) for spot in one.spots for cell in spot.done)
    ]


def heat(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draw the maps of groups, as many beside each other as fit into `width`."""
    drawn = list(maps(found))
    directions = {one.directions for one in drawn}
    common = directions.pop() if len(directions) == 1 else ""
    spots = [spot for one in found for spot in one.spots]
    yield from _key(found, spots, common, ink, width)
    mark = any(spot.unexpected for spot in spots)
    blocks = [
        list(_block(one, "" if common else one.directions, mark, ink, width)) for one in drawn
    ]
    widest = max(line.cell_len for block in blocks for line in block)
    across = max((width + GAP) // (widest + GAP), 1)
    for start in range(0, len(blocks), across):
        yield Text()
        yield from beside(blocks[start : start + across], widest)


def _key(
    found: list[Group], spots: list[Spot], directions: str, ink: Ink, width: int
) -> Iterator[Text]:
    """Explain the shades, and name the attack and estimator of all maps."""
    naming = telling(found)
    everyone = [found[0].names[part] for part in (1, 2) if part not in naming]
    yield ink.text(" · ".join(everyone) if everyone else "Map", "bold").append(
        ink.plain(f"; {directions}" if directions else ""), "not bold"
    )
    used = set(map(_shade, spots))
    shades = [ink.text("Certified ε ÷ claimed ε", "dim")]
    shades += [ink.text(f"{shade} {text}", "dim") for _, shade, text in SHADES if shade in used]
    if any(len(spot.cells) > 1 for spot in spots):
        shades.append(ink.text("of repeats the worst", "dim"))
    yield ink.joined(shades, width)


def _block(one: Map, directions: str, mark: bool, ink: Ink, width: int) -> Iterator[Text]:
    """Return the lines of one map; a map that is too wide is cut into several."""
    for text in filter(None, (one.title, directions)):
        yield from ink.folded(text, "bold" if text == one.title else "dim", width)
    labels = [ink.line(label) for label, _ in one.rows]
    lead = max(Text(label).cell_len for label in labels)
    alone = lead > max(width * WIDEST_LEAD, 1)
    lead = 0 if alone else lead + 1
    heads = [ink.line(head) for head in one.heads]
    sizes = [max(2 + mark, Text(head).cell_len + mark) for head in heads]
    for start, stop in cuts(sizes, width - lead, 1):
        line = Text(" " * lead, "dim", no_wrap=True)
        for head, size in zip(heads[start:stop], sizes[start:stop], strict=True):
            line.append(f"{' ' * mark}{padded(head, size - mark)} ")
        line.rstrip()
        yield line
        for label, (_, spots) in zip(labels, one.rows, strict=True):
            if alone:
                yield from ink.folded(label, "bold", width)
            line = Text("" if alone else padded(label, lead), "bold", no_wrap=True)
            for spot, size in zip(spots[start:stop], sizes[start:stop], strict=True):
                line.append_text(_cell(spot, size, mark, ink)).append(" ")
            line.rstrip()
            yield line


def _cell(spot: Spot | None, size: int, mark: bool, ink: Ink) -> Text:
    text = Text(style="not bold")
    if spot is not None:
        if mark:
            text.append(ink.plain(words.UNEXPECTED) if spot.unexpected else " ", STYLE["failed"])
        sign = words.SYMBOL[spot.verdict] + _shade(spot)
        text.append(ink.plain(sign), STYLE[spot.verdict])
    return text.append(" " * (size - text.cell_len))


def _shade(spot: Spot) -> str:
    share = spot.share
    return " " if share is None else next(sign for most, sign, _ in SHADES if share <= most)
