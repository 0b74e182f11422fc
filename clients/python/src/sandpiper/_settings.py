"""Reads the settings of a config.yaml that a Python program needs; the server reads the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_SECTION = re.compile(r"^(\w+):\s*(?:#.*)?$")
_SETTING = re.compile(r"^\s+(\w+):\s*(.*?)\s*$")


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """Return the plain values in the sections execution and guardrails.

    It understands one value a line. Lists and nested settings are skipped.
    """
    sections: dict[str, dict[str, Any]] = {}
    section: dict[str, Any] | None = None
    indent = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            match = _SECTION.match(line)
            name = line.partition(":")[0].strip()
            if not match and name in ("execution", "guardrails"):
                raise ValueError(f"{path}, line {number}: write the settings of {name} on lines of their own, indented")
            section, indent = (sections.setdefault(name, {}) if name in ("execution", "guardrails") else None), 0
            continue
        if section is None or not (match := _SETTING.match(line)):
            continue
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        if depth == indent and (value := _value(match[2])) is not None:
            section[match[1]] = value
    return sections


def _value(text: str) -> Any:
    if text[:1] in ("'", '"'):
        quoted, _, rest = text[1:].partition(text[0])
        return quoted if not rest.strip() or rest.strip().startswith("#") else None
    text = re.split(r"\s+#", text)[0].strip()
    if text in ("", "~", "null") or text[0] in "[{&*!|>#":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text
