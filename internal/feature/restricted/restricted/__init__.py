"""Limits code to a part of Python, which docs/restricted.md describes.

check.py checks code before it runs, against the lists of allowed.py; replacements.py replaces builtins and
modules for it.
"""

LATER = ("replacements",)


def guard(workspace):
    from .replacements import Guard

    return Guard(workspace)
