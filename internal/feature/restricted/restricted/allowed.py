"""The names that restricted code may use: the lists of check.py and replacements.py.

docs/restricted.md documents them, and a test compares the two. A name is listed
if data-processing code uses it and no path is known from it to files, processes
or the internals of the interpreter.
"""

import builtins
import types

# In addition, every exception and the replacements of the checked builtins are allowed.
BUILTINS = frozenset("""
abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex dict dir divmod enumerate exit
filter float format frozenset hash hex id int isinstance issubclass iter len list map max memoryview min next object oct
ord pow print property quit range repr reversed round set slice sorted staticmethod str sum super tuple zip
False True None NotImplemented Ellipsis
""".split())

# Replaced by versions that check their arguments.
CHECKED = frozenset("compile delattr eval exec getattr hasattr setattr type vars".split())

EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items()
    if name[0] != "_" and isinstance(value, type) and issubclass(value, BaseException)
)

# Builtins that are not available, and the advice for each.
INSTEAD = {
    "open": "use read_file(f) and write_file(f, content)",
    "input": "there is no interactive input: pass values as context_vars",
    "globals": "use a dict of your own",
    "locals": "use a dict of your own",
    "breakpoint": "print what you want to see",
}

# Module name -> available names, "" for all public ones. Modules that another
# module imported are never available: json.codecs is not. If names are listed,
# other names of that module open files, start processes, evaluate text or expose
# the internals of the interpreter.
MODULES = {
    "__future__": "",
    "abc": "ABC abstractmethod",
    "array": "",
    "ast": "literal_eval",
    "asyncio": """
        ALL_COMPLETED Barrier BoundedSemaphore CancelledError Condition Event FIRST_COMPLETED FIRST_EXCEPTION
        InvalidStateError LifoQueue Lock PriorityQueue Queue QueueEmpty QueueFull Semaphore Task TaskGroup TimeoutError
        as_completed create_task current_task gather iscoroutine iscoroutinefunction run shield sleep timeout to_thread
        wait wait_for""",
    "base64": "",
    "binascii": "",
    "bisect": "",
    "calendar": "",
    "cmath": "",
    "collections": "",
    "collections.abc": "",
    "colorsys": "",
    "concurrent.futures": """
        ALL_COMPLETED CancelledError FIRST_COMPLETED FIRST_EXCEPTION Future ThreadPoolExecutor TimeoutError as_completed
        wait""",
    "contextlib": """
        AbstractAsyncContextManager AbstractContextManager AsyncExitStack ContextDecorator ExitStack aclosing
        asynccontextmanager closing contextmanager nullcontext redirect_stdout suppress""",
    "copy": "",
    "csv": "",
    "dataclasses": """
        FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass field fields is_dataclass replace""",
    "datetime": "",
    "decimal": "",
    "difflib": "",
    "enum": "Enum Flag IntEnum IntFlag StrEnum auto member nonmember unique",
    "fnmatch": "",
    "fractions": "",
    "functools": """
        cache cached_property cmp_to_key lru_cache partial partialmethod reduce total_ordering wraps""",
    "graphlib": "",
    "gzip": "compress decompress",
    "hashlib": "",
    "heapq": "",
    "hmac": "",
    "html": "",
    "html.entities": "",
    "html.parser": "",
    "io": "BytesIO StringIO",
    "ipaddress": "",
    "itertools": "",
    "json": "",
    "json.decoder": "JSONDecodeError JSONDecoder",
    "math": "",
    "numbers": "",
    "operator": "",
    "pprint": "",
    "queue": "",
    "random": "",
    "re": "",
    "secrets": "",
    "shlex": "join quote split",
    "statistics": "",
    "string": """
        Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable punctuation
        whitespace""",
    "struct": "",
    "textwrap": "",
    "threading": """
        Barrier BoundedSemaphore Condition Event Lock RLock Semaphore Thread Timer current_thread local""",
    "time": "",
    "tomllib": "",
    "traceback": "format_exc format_exception format_exception_only print_exc",
    "types": "EllipsisType GenericAlias MappingProxyType NoneType NotImplementedType SimpleNamespace UnionType",
    "typing": """
        AbstractSet Annotated Any AnyStr AsyncGenerator AsyncIterable AsyncIterator Awaitable Callable ClassVar Collection
        Concatenate Container Coroutine Counter DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable
        ItemsView Iterable Iterator KeysView List Literal LiteralString Mapping MutableMapping MutableSequence MutableSet
        NamedTuple Never NewType NoReturn NotRequired Optional OrderedDict ParamSpec Protocol Required Reversible Self
        Sequence Set Sized SupportsAbs SupportsBytes SupportsFloat SupportsInt SupportsRound TYPE_CHECKING Text Tuple
        Type TypeAlias TypeGuard TypeVar TypedDict Union Unpack ValuesView assert_never cast final no_type_check overload
        override runtime_checkable""",
    "unicodedata": "",
    "urllib.parse": "",
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 SafeUUID UUID uuid3 uuid4 uuid5 uuid7",
    "warnings": "filterwarnings simplefilter warn",
    "xml.etree.ElementTree": "Comment Element ParseError QName SubElement XML fromstring indent iselement tostring",
    "zlib": "",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
}

# Package -> its modules.
INNER = {}
for _name in MODULES:
    INNER.setdefault(_name.rpartition(".")[0], set()).add(_name.rpartition(".")[2])

# Packages that are not libraries: saved skills, each checked when it is imported, and the generated modules of connected servers.
PACKAGES = ("skills", "servers")

# Special methods that a class may define and call by super().
METHODS = frozenset(f"__{name}__" for name in """
init new post_init del call enter exit aenter aexit await iter next aiter anext reversed contains len length_hint
getitem setitem delitem missing get set delete set_name init_subclass class_getitem instancecheck subclasscheck
str repr bytes format hash bool int float complex index round trunc floor ceil abs neg pos invert
eq ne lt le gt ge add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or
radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror
iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor ior copy deepcopy replace fspath dir sizeof
""".split())

# Other names with double underscores that code may bind.
SETTABLE = METHODS | {"__getattr__", "__setattr__", "__delattr__", "__slots__", "__doc__", "__all__", "__version__", "__author__"}

# Names with double underscores that code may read, as attributes or variables.
READABLE = frozenset({"__name__", "__qualname__", "__doc__"})

# Public attributes that data-processing code does not need and that expose the
# internals of the interpreter or can start processes.
_KINDS = (types.FrameType, types.TracebackType, types.CodeType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
INSIDES = frozenset(
    name for kind in _KINDS for name in dir(kind) if name.startswith(("f_", "tb_", "co_", "gi_", "cr_", "ag_"))
) | {
    "get_loop", "_get_loop", "_loop", "_convert_",
    "evaluate_bound", "evaluate_constraints", "evaluate_default", "evaluate_value",
}

# Names with one underscore that are documented as public.
PUBLIC = frozenset("""
_asdict _field_defaults _fields _make _replace _generate_next_value_ _ignore_ _missing_ _name_ _order_ _value_
""".split())

# Receivers whose private attributes code may use: the objects of its own methods.
OWN = frozenset({"self", "cls", "other"})

# Builtin classes that may be matched by position: case int(x).
MATCHED = frozenset("bool bytearray bytes dict float frozenset int list set str tuple".split())
