"""The error of forms."""


class FormError(ValueError):
    """A form cannot be read or filled in; .problems lists why, each with field, problem and message."""

    def __init__(self, message="", problems=()):
        super().__init__(message)
        self.problems = list(problems)

    def __reduce__(self):  # its module is not the one that has it
        return _form_error, (str(self), self.problems)


def _form_error(*fields):
    return FormError(*fields)


FormError.__module__ = "builtins"  # so that tracebacks show it without a module
