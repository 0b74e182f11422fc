"""Saved states: small JSON values by name, for later executions."""


def names(interpreter):
    states = States(interpreter.channel)
    return {"save_state": states.save_state, "get_state": states.get_state, "StateConflict": StateConflict}


class StateConflict(Exception):
    """A state has another version than the one that save_state was to replace."""


StateConflict.__module__ = "builtins"


class States:
    def __init__(self, channel):
        self._channel = channel

    def save_state(self, name, value, version=None):
        """Save a small JSON value for later executions, and return its version; None deletes it.

        It is on disk when this returns. With a version, only that version is replaced, 0 if there is
        no value yet; if the state has another one, StateConflict is raised.
        """
        args = {"name": name, "value": value} if version is None else {"name": name, "value": value, "version": version}
        answer = self._channel.call("save_state", args)
        if "conflict" in answer:
            raise StateConflict(answer["conflict"])
        return answer["version"]

    def get_state(self, name, default=None, version=False):
        """Return a saved value, or the default; with version=True, the pair (value, version)."""
        answer = self._channel.call("get_state", {"name": name})
        value = answer["value"] if answer["version"] else default
        return (value, answer["version"]) if version else value
