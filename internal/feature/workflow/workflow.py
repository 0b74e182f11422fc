"""What the code of workflows uses beside the functions of all code."""

from ..errors import ToolError


def names(interpreter):
    return {"workflow": Workflow(interpreter)}


class Record(dict):
    """A mapping whose keys are attributes, too, unless a method has the name."""

    __slots__ = ()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no key {name!r}") from None

    def __dir__(self):  # for what an error suggests
        return [k for k in self if isinstance(k, str)]


def records(value):
    """Return a value with records in place of the mappings in it."""
    if type(value) is dict:
        return Record((k, records(v)) for k, v in value.items())
    if type(value) in (list, tuple):
        return type(value)(map(records, value))
    return value


class Step:
    """How a step ended."""

    __slots__ = ("error", "result")

    def __init__(self, result=None, error=None):
        self.result, self.error = records(result), error


class Steps:
    """The steps of a workflow: steps.NAME = value ends one with a result, which steps.NAME.result is."""

    def __getattr__(self, name):
        return Step()  # it did not run

    def __setattr__(self, name, value):
        vars(self)[name] = value if isinstance(value, Step) else Step(value)


class Workflow:
    """Functions of the code to which workflows are compiled."""

    def __init__(self, interpreter):
        self._interpreter = interpreter

    def begin(self, inputs):
        """Return the steps of a run, and its inputs."""
        return Steps(), records(inputs)

    def each(self, loop, items, most):
        """Yield items for the iterations of a loop, at most so many."""
        for i, item in enumerate(items):
            if i == most:
                raise RuntimeError(f"loop {loop} has more than {most} iterations; raise max_iterations")
            yield records(item)

    def failed(self, step, error):
        """Return what a step that failed has instead of its result."""
        print(f"step {step} failed: {error}")
        return Step(error=str(error))

    def repeat(self, attempts, seconds, work):
        """Call work until it succeeds, waiting seconds, then twice as long, and so on.

        It is not called again if a call in it failed and may have taken effect.
        """
        for attempt in range(attempts - 1):
            try:
                with ToolError.watch() as unknown:
                    return work()
            except Exception as error:
                if unknown or ToolError.may_have_effect(error):
                    raise
                print(f"attempt {attempt + 1} of {attempts} failed: {error}")
                self._interpreter.waits.sleep_for(seconds * 2**attempt)
        return work()

    def approve(self, question):
        """Ask a person for approval, and raise an error without it."""
        if not self._interpreter.ask(question, {"type": "boolean"}):
            raise PermissionError(f"not approved: {question}")
        return True

    def answer(self, question, schema):
        """Ask a person, and raise an error without an answer."""
        value = self._interpreter.ask(question, schema)
        if value is None:
            raise PermissionError(f"not answered: {question}")
        return value

    def fill_form(self, file, save_as, data=None, **options):
        """Fill in a form, and save the filled copy as another file."""
        form = self._interpreter.ready["forms"].open(file).fill(data, **options)
        form.save(save_as)
        return {"file": save_as, "values": form.values, "unused": form.unused, "review": form.review()}
