"""Restores tokens for personal data in the constants of code, and provides two helpers.

The daemon maps tokens to values and sends those that an execution may use. They are
replaced in the syntax tree, not in the source, where quotes or braces in a value
could turn it into code.
"""

import ast
import re


class Tokens:
    """A map of tokens to values."""

    def __init__(self, values, numbers=()):
        self.values = values
        self._numbers = {t: _number(values[t]) for t in numbers}
        self._lengths = sorted({len(t) for t in values if t}, reverse=True)
        begin = "".join({t[0] for t in values if t})
        self._begin = re.compile(f"[{re.escape(begin)}]" if begin else r"(?!)")

    def found(self, text):
        """Yield (position, token) for each token in text, the longest at each position."""
        end = 0
        for match in self._begin.finditer(text):
            at = match.start()
            if at < end:
                continue
            for length in self._lengths:
                token = text[at : at + length]
                if token in self.values:
                    end = at + len(token)
                    yield at, token
                    break

    def restore(self, text):
        """Return text with tokens replaced by values. Values are not searched for tokens."""
        parts, end = [], 0
        for at, token in self.found(text):
            parts += text[end:at], self.values[token]
            end = at + len(token)
        return "".join(parts) + text[end:] if parts else text

    def restore_constants(self, tree):
        """Replace tokens in every string of tree, and in bytes as UTF-8; report whether any changed.

        A string that equals a number token becomes that number, except within an f-string.
        """
        changed, texts = False, set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                texts.update(map(id, node.values))
            if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
                old, node.value = node.value, self._restored(node.value, id(node) in texts)
                changed = changed or node.value != old
        return changed

    def _restored(self, value, text):
        if isinstance(value, str):
            return self._numbers[value] if value in self._numbers and not text else self.restore(value)
        return self.restore(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _number(text):
    """Return text as a JSON number, or unchanged if it is none."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


class Privacy:
    """The helpers tokenize_pii and detokenize_pii."""

    def __init__(self, channel):
        self._channel = channel

    def tokenize_pii(self, text):
        """Return text with personal data replaced by tokens, and a dict of token to value."""
        answer = self._channel.call("tokenize", {"text": _text("tokenize_pii(text)", text)})
        return answer["text"], answer["tokens"]

    def detokenize_pii(self, text, tokens=None):
        """Return text with tokens replaced by values: those in the dict tokens, or else all known to this session."""
        text = _text("detokenize_pii(text, tokens)", text)
        if tokens is None:
            return self._channel.call("detokenize", {"text": text})["text"]
        if not isinstance(tokens, dict):
            raise TypeError(f"detokenize_pii(text, tokens): tokens must be a dict, got {type(tokens).__name__}")
        for part in (part for pair in tokens.items() for part in pair):
            if not isinstance(part, str):
                raise TypeError(f"detokenize_pii(text, tokens): tokens must be a dict of str to str, it holds {type(part).__name__}")
        return Tokens(tokens).restore(text)


def _text(where, text):
    if not isinstance(text, str):
        raise TypeError(f"{where}: text must be a str, got {type(text).__name__}")
    return text
