"""The command line. Imports nothing heavy before a command needs it."""

from dpframe.cli import environments
from dpframe.cli.app import app, main, offer
from dpframe.cli.audits import plan, run, show
from dpframe.cli.authors import new
from dpframe.cli.checks import check
from dpframe.cli.installed import plugins, schema
from dpframe.cli.measures import calibrate, compare, score
from dpframe.cli.pictures import plot
from dpframe.cli.reports import diff, report
from dpframe.cli.shards import merge
from dpframe.cli.signals import Terminated

__all__ = ["Terminated", "app", "main"]

offer(run, keeps_counts=True)
offer(merge, keeps_counts=True)
for command in (
    plan,
    check,
    show,
    report,
    plot,
    diff,
    score,
    compare,
    calibrate,
    plugins,
    schema,
    new,
):
    offer(command)
app.add_typer(environments.group)
for name, one in environments.COMMANDS.items():
    offer(one, group=environments.group, name=name)
