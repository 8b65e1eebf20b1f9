"""The command line. Imports nothing heavy before a command needs it."""

from dpframe.cli import plugins as environments
from dpframe.cli.app import app, main, offer
from dpframe.cli.audits import check, merge, plan, run, show, verify
from dpframe.cli.measures import calibrate, compare, diff, plot, report, score
from dpframe.cli.plugins import new, plugins, schema
from dpframe.cli.process import Terminated

__all__ = ["Terminated", "app", "main"]

offer(run, keeps_counts=True)
offer(merge, keeps_counts=True)
for command in (plan, verify, check, show, report, plot, diff, score, compare, calibrate):
    offer(command)
for about_plugins in (plugins, schema, new):
    offer(about_plugins)
app.add_typer(environments.group)
for name, one in environments.COMMANDS.items():
    offer(one, group=environments.group, name=name)
