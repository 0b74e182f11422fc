"""Questions of code to a language model."""

import json

from .. import convert

_loads = json.JSONDecoder().decode


def names(interpreter):
    return {"ask_llm": Model(interpreter.channel).ask_llm}


class Model:
    def __init__(self, channel):
        self._channel = channel

    def ask_llm(self, prompt, data=None, json_schema=None):
        """Ask a language model about data and return its answer, a text.

        With a JSON schema the answer is a value that conforms to it. The requests and tokens of an
        execution are limited. Off unless the operator has configured a model.
        """
        if not isinstance(prompt, str):
            raise TypeError(f"ask_llm(prompt, data, json_schema): the prompt must be text, got {type(prompt).__name__}")
        args = {"prompt": prompt, "data": _loads(convert.dumps(data, 1 << 20).decode()), "schema": _loads(convert.dumps(json_schema, 1 << 16).decode())}
        return self._channel.call("ask_llm", args)["value"]
