"""The server "file store\"

from servers.file_store import TOOL, where TOOL is one of:

    abroad: Refers to elsewhere.
    chmod: Sets a mode.
    conditions: Has conditions.
    contradiction: Cannot be satisfied.
    crop: Cuts a picture.
    deep: Goes down.
    defaults: Has many defaults.
    move: Moves files.
    mutual: Refers back and forth.
    one_of_many: Picks one of many.
    ref_into_itself: Refers to itself.
    resource_group_read: Reads a file of a group.
    same_twice: Has two parameters alike.
    search: Finds files.
    stat: Tells of a file.
    tag: Tags a file.
    tree: Shows a folder.
    upload: Stores a file.
"""

import sys as _sys

from servers import _Package


class _This(_Package):
    _tools = frozenset((
        "abroad",
        "chmod",
        "conditions",
        "contradiction",
        "crop",
        "deep",
        "defaults",
        "move",
        "mutual",
        "one_of_many",
        "ref_into_itself",
        "resource_group_read",
        "same_twice",
        "search",
        "stat",
        "tag",
        "tree",
        "upload",
    ))
    _parts = frozenset(("aio", "resources",))


_sys.modules[__name__].__class__ = _This
# made from d16d36a27dd1e5db3d32d23f5e80f981
