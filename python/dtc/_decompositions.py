"""Programs of PyTorch without what dtc doesn't read, by PyTorch's own definitions. It sees nothing else of the package (hf.py)."""

from collections.abc import Collection, Iterator
from typing import Any


def _nodes(program: Any) -> Iterator[Any]:
    for module in program.graph_module.modules():
        yield from getattr(getattr(module, "graph", None), "nodes", ())


def _hidden_views(torch: Any, program: Any) -> dict[Any, Any]:
    """PyTorch's definitions of operators that give views, but say nothing of it: unless they are taken apart, what is changed
    in place afterwards isn't seen in these."""
    aten, known = torch.ops.aten, torch.export.default_decompositions()
    if not any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in _nodes(program)):
        return {}
    hidden = {aten.broadcast_tensors.default, aten.meshgrid.default, aten.meshgrid.indexing}
    if any(node.target == aten.einsum.default and len(node.args[1]) == 1 for node in _nodes(program)):
        hidden.add(aten.einsum.default)
    return {op: known[op] for op in hidden if op in known}


def _decomposed(torch: Any, program: Any, definitions: dict[Any, Any]) -> Any:
    """The program without operators in place, and with definitions in the place of others."""
    return program.run_decompositions(_hidden_views(torch, program) | definitions)


def _strange_operators(torch: Any, program: Any, operators: Collection[str]) -> set[Any]:
    """Those of PyTorch that the program has and dtc doesn't read."""
    found = set()
    for node in _nodes(program):
        op = node.target
        if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten":
            base = f"aten.{op._schema.name.partition('::')[2]}"
            if base not in operators and base.removesuffix("_") not in operators:
                found.add(op)
    return found


def _without(torch: Any, program: Any, op: Any, operators: Collection[str]) -> Any:
    """The program with PyTorch's own definition of an operator in its place; None where that has others that dtc doesn't read."""
    known, others = torch.export.default_decompositions(), _strange_operators(torch, program, operators)
    open_, tried = {op}, set()
    while open_:
        each = min(open_, key=str)
        tried.add(each)
        definition = known[each] if each in known else torch._decomp.get_decompositions([each]).get(each)
        if definition is None:
            return None
        try:
            program = _decomposed(torch, program, {each: definition})
        except Exception:  # of many kinds, from all that a definition may do
            return None
        open_ = _strange_operators(torch, program, operators) - others
        if open_ & tried:
            return None
    return program


def _known_by_parts(torch: Any, program: Any, operators: Collection[str]) -> Any:
    """The program with PyTorch's own definitions in the place of operators that dtc doesn't read, where it has some."""
    for op in sorted(_strange_operators(torch, program, operators), key=str):
        program = _without(torch, program, op, operators) or program
    return program


def _detach_at_ends(torch: Any, program: Any) -> None:
    """Detaches what regions of `no_grad()` give, as decompositions forget these."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
                continue
            region = getattr(module, node.args[1].target)
            end = next(iter(reversed(region.graph.nodes)))
            with region.graph.inserting_before(end):
                for value in end.all_input_nodes:
                    if isinstance(value.meta.get("val"), torch.Tensor):
                        detached = region.graph.call_function(torch.ops.aten.detach.default, (value,))
                        detached.meta = dict(value.meta)
                        end.replace_input_with(value, detached)
            region.recompile()


def functional(torch: Any, program: Any, operators: Collection[str] = ()) -> Any:
    """The program without operators that write into a part of a tensor; others may work in place.

    Where `operators` are given, those that dtc reads, others become what they are made of.
    """
    _detach_at_ends(torch, program)
    if operators:
        program = _known_by_parts(torch, program, operators)

    def writes_into_a_part(node: Any) -> bool:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            return False
        changed = node.args[0] if node.args else None
        source = getattr(getattr(changed, "target", None), "_schema", None)
        return source is not None and any(result.alias_info is not None for result in source.returns)

    return _decomposed(torch, program, {}) if any(map(writes_into_a_part, program.graph.nodes)) else program
