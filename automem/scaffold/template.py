"""A bounded subset of Jinja2: enough for prompts, too little to hang or flood the process.

Templates may come from a meta-LLM and are rendered in this process, so what they can cost is bounded when
they are compiled: only the nodes, filters and methods below; no macros, imports, blocks or namespaces; every
loop item, every computed value and everything that is computed on is charged to a meter that each rendering
starts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jinja2 import (
    FunctionLoader,
    StrictUndefined,
    Template,
    TemplateSyntaxError,
    nodes,
    pass_context,
    pass_eval_context,
)
from jinja2.exceptions import SecurityError
from jinja2.filters import do_tojson
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Units of work in one rendering: a loop item or a computed value is one, and every hundred characters or items
#: of a computed value are one more.
WORK = 20_000
#: Units that a template costs by being there, so that one that includes itself does not get deep.
ENTRY = 100
#: Characters or items in one computed value.
VALUE_SIZE = 50_000
#: Characters in a rendered prompt: more than models read. What a model reads is for it to say, this is for the process.
PROMPT_SIZE = 1_000_000
#: Characters and items in a value with everything nested in it: what it takes to compare it or to write it out.
WEIGHT = 1_000_000
#: Numbers that are multiplied may not be larger.
NUMBER = 10**18
#: Nodes of one template.
NODES = 4_000

FILTERS = frozenset((
    "abs", "capitalize", "count", "default", "dictsort", "first", "float", "int", "items", "join", "last",
    "length", "list", "lower", "max", "min", "reverse", "round", "sort", "string", "sum", "title", "tojson",
     "trim", "truncate", "unique", "upper", "wordcount",
))  # fmt: skip
METHODS = frozenset((
    "endswith", "get", "items", "keys", "lower", "split", "splitlines", "startswith", "strip", "tail", "text",
    "upper", "values",
))  # fmt: skip
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict,
    nodes.Pair, nodes.Keyword, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.If, nodes.CondExpr, nodes.Compare,
    nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.For, nodes.Include, nodes.Filter,
    nodes.Test, nodes.Assign, nodes.Call, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv,
    nodes.Mod,
)  # fmt: skip
_COMPUTED = (nodes.Filter, nodes.Call, nodes.Concat, nodes.Add, nodes.List, nodes.Tuple, nodes.Dict, nodes.Getitem)
#: Nodes whose work grows with what they are given.
_CONSUMING = (nodes.Filter, nodes.Compare, nodes.Operand, nodes.Test, nodes.Call)


class PromptTooLong(SecurityError):
    """The prompt is longer than `PROMPT_SIZE`."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Compiles the subset, with its meters in place."""

    intercepted_binops = frozenset("*%")

    def __init__(self, sources: Mapping[str, str]) -> None:
        super().__init__(
            # Named like files, so that tracebacks tell which template is at fault.
            loader=FunctionLoader(lambda name: (sources[name], name, None) if name in sources else None),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            cache_size=-1,
        )
        self._left = 0
        self.filters = {name: self.filters[name] for name in FILTERS} | {
            "join": self._join,
            "round": self._round,
            "sum": self._sum,
            "tojson": self._tojson,
            "entered": self._entered,
            "metered": self._metered,
            "measured": self._measured,
        }
        self.globals = {"range": self.globals["range"]}

    def compile(self, source: str | nodes.Template, *args: Any, **kwargs: Any) -> Any:
        """Compile a template of the subset.

        Raises:
            TemplateSyntaxError: it uses something else, or is too large; names the line.
        """
        tree = self.parse(source, *args) if isinstance(source, str) else source
        return super().compile(_bounded(tree, *args[:1]), *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Numbers only: repeating or formatting a text is the cheapest way to a huge one."""
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            raise SecurityError(f"'{operator}' is for numbers")
        if max(abs(left), abs(right)) > NUMBER:
            raise SecurityError(f"'{operator}' is for numbers up to {NUMBER:.0e}")
        return super().call_binop(context, operator, left, right)

    def render(self, template: Template, variables: Mapping[str, Any]) -> str:
        """The text of `template`.

        Raises:
            PromptTooLong: it is.
            SecurityError: it costs too much.
        """
        self._left = WORK
        size, pieces = 0, []
        for piece in template.generate(variables):
            size += len(piece)
            if size > PROMPT_SIZE:
                raise PromptTooLong(f"the prompt is longer than {PROMPT_SIZE:,} characters")
            pieces.append(piece)
        return "".join(pieces)

    def _use(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise SecurityError("the template does too much work")

    @pass_context  # whose filters are never computed ahead
    def _entered(self, context: Context, value: str) -> str:
        self._use(ENTRY)
        return value

    def _metered(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._use(1)
            yield item

    def _measured(self, value: Any) -> Any:
        size = len(value) if isinstance(value, (str, list, tuple, dict, range)) else 0
        if size > VALUE_SIZE:
            raise SecurityError(f"a value has more than {VALUE_SIZE} characters or items")
        self._use(1 + _weight(value, WEIGHT) // 100)
        return value

    def _round(self, value: Any, precision: int = 0, method: str = "common") -> Any:
        """As in Jinja2, whose own takes hours for a precision of a million."""
        if method != "common" or not -15 <= precision <= 15:
            raise SecurityError("round takes a precision of 15 at most, and no method")
        return round(value, precision)

    def _sum(self, items: Iterable[Any]) -> Any:
        """Of numbers; sums of lists would copy them again and again."""
        return sum(items)

    @pass_eval_context
    def _tojson(self, context: EvalContext, value: Any, indent: int | None = None) -> Any:
        if indent is not None and not 0 <= indent <= 8:
            raise SecurityError("tojson takes an indent of 8 at most")
        return do_tojson(context, value, indent)

    def _join(self, items: Iterable[Any], separator: str = "") -> str:
        size, texts = 0, []
        for item in items:
            text = str(item)
            size += len(text) + len(separator)
            if size > VALUE_SIZE:
                raise SecurityError(f"a value has more than {VALUE_SIZE} characters or items")
            texts.append(text)
        return separator.join(texts)


def _weight(value: Any, most: int) -> int:
    """Characters and items in `value` and in all that is nested in it.

    Raises:
        SecurityError: there are more than `most`.
    """
    weight, rest = 0, [value]
    while rest:
        item = rest.pop()
        if isinstance(item, (str, range)):
            weight += len(item)
        elif isinstance(item, (list, tuple)):
            weight += len(item)
            rest += item
        elif isinstance(item, dict):
            weight += len(item)
            rest += [*item.keys(), *item.values()]
        if weight > most:
            raise SecurityError(f"a value has more than {most} characters and items in all")
    return weight


def _bounded(tree: nodes.Template, name: str | None = None) -> nodes.Template:
    """Check `tree` and put the meters in, in place."""
    for count, node in enumerate(_walk(tree)):
        if count > NODES:
            raise TemplateSyntaxError("the template is too large", node.lineno, name)
        if problem := _problem(node):
            raise TemplateSyntaxError(problem, node.lineno, name)
    _meter(tree)
    tree.body.insert(0, nodes.Output([_filtered(nodes.Const(""), "entered", 1)], lineno=1))
    return tree


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _problem(node: nodes.Node) -> str | None:
    """Why `node` is not of the subset, or None."""
    if not isinstance(node, _NODES):
        return f"{type(node).__name__.lower()} is not part of the template language of scaffolds"
    match node:
        case nodes.Filter(name=name) if name not in FILTERS:
            return f"no filter '{name}'; there are {', '.join(sorted(FILTERS))}"
        case nodes.For(recursive=True):
            return "recursive loops are not part of the template language of scaffolds"
        case nodes.Include(template=template) if not isinstance(template, nodes.Const):
            return "include takes a name, not an expression"
        case nodes.Assign(target=target) if not isinstance(target, nodes.Name):
            return "set takes a plain name"
        case nodes.Call(node=function) if not _callable(function):
            return f"only range and the methods {', '.join(sorted(METHODS))} can be called"
    return None


def _callable(function: nodes.Expr) -> bool:
    if isinstance(function, nodes.Name):
        return function.name == "range"
    return isinstance(function, nodes.Getattr) and function.attr in METHODS


def _meter(node: nodes.Node) -> None:
    """Charge loop items, computed values and what is computed on, wherever they stand below `node`."""
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            _meter(value)
            is_loop = isinstance(node, nodes.For) and name == "iter"
            is_called = isinstance(node, nodes.Call) and name == "node"
            setattr(node, name, _charged(value, is_loop, isinstance(node, _CONSUMING) and not is_called))
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, nodes.Node):
                    _meter(item)
                    value[position] = _charged(item, False, isinstance(node, _CONSUMING))


def _charged(node: nodes.Node, is_loop: bool, is_consumed: bool) -> nodes.Node:
    is_target = getattr(node, "ctx", "load") != "load"
    if not isinstance(node, nodes.Expr) or is_target:
        return node
    if isinstance(node, _COMPUTED) or (is_consumed and not isinstance(node, (nodes.Const, nodes.Slice))):
        node = _filtered(node, "measured", node.lineno)
    if is_loop:
        node = _filtered(node, "metered", node.lineno)
    return node


def _filtered(value: nodes.Expr, name: str, line: int) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=line)
