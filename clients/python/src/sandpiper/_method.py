"""Methods that are described once, as operations, for the sync and the async client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from ._operations import Operation

P = ParamSpec("P")
T = TypeVar("T")
Mode = TypeVar("Mode", "Sync", "Async")


class Sync:
    """The mode of methods that wait for the answer."""


class Async:
    """The mode of methods that are coroutines."""


class Area(Generic[Mode]):
    """Something with methods of one mode."""

    _do: Callable[[Operation[Any]], Any]  # performs an operation
    _id = ""  # of what the methods of Method.of are about


class Part(Area[Mode]):
    """A part of a client."""

    def __init__(self, do: Callable[[Operation[Any]], Any], id: str = "") -> None:
        self._do, self._id = do, id


class Method(Generic[P, T]):
    """A method of an area. Its parameters and documentation are those of its operation."""

    def __init__(self, operation: Callable[P, Operation[T]], takes_id: bool = False) -> None:
        self._operation, self._takes_id = operation, takes_id
        self._signature = _signature(operation, takes_id)
        self.__doc__ = operation.__doc__

    @staticmethod
    def of(operation: Callable[Concatenate[str, P], Operation[T]]) -> Method[P, T]:
        """Return a method whose operation takes the id of the area first."""
        return cast("Method[P, T]", Method(operation, True))

    @overload
    def __get__(self, area: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, area: Area[Sync], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, area: Area[Async], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, area: Any, owner: type) -> Any:
        if area is None:  # as of a class
            return self._wrap(lambda area, *args, **options: self.__get__(area, owner)(*args, **options))
        operation: Any = functools.partial(self._operation, area._id) if self._takes_id else self._operation

        def method(*args: Any, **options: Any) -> Any:
            return area._do(operation(*args, **options))

        async def coroutine(*args: Any, **options: Any) -> Any:
            return await area._do(operation(*args, **options))

        return self._wrap(coroutine if inspect.iscoroutinefunction(area._do) else method)

    def _wrap(self, method: Any) -> Any:
        functools.update_wrapper(method, self._operation)
        method.__signature__ = self._signature
        return method


def _signature(operation: Callable[..., Operation[Any]], takes_id: bool) -> inspect.Signature:
    """Return the signature of the method, whose result is that of the operation."""
    of = inspect.signature(operation)
    result = str(of.return_annotation).removeprefix("Operation[").removesuffix("]")
    return of.replace(parameters=list(of.parameters.values())[takes_id:], return_annotation=result)
