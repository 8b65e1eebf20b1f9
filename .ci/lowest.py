"""Prints constraints that pin every direct dependency to the lowest version allowed."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"] + project["optional-dependencies"]["test"]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={version}")
