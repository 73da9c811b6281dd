"""The sharding of a problem as an integer program, for HiGHS.

A statement (`dtc-plan-test`, test/lib/Plan/ShardingStatement.h) has deciders, which take one of their choices each,
and what combinations of choices cost. `cost` adds that up for given choices; `minimize` finds the least.
"""

import dataclasses
import itertools
import math

import highspy
import numpy

NODE_LIMIT = 20000


class Statement:
    def __init__(self, stated: dict):
        self.costs = [decider["costs"] for decider in stated["deciders"]]
        self.names = [decider["name"] for decider in stated["deciders"]]
        self.transfers = []
        for entry in stated["transfers"]:
            seconds = {(a, b): math.inf if s is None else s for a, b, s in entry["seconds"]}
            self.transfers.append((entry["hub"], entry["spokes"], seconds))
        self.tables = []
        for table in stated["tables"]:
            counts = [max(classes) + 1 for classes in table["classes"]]
            costs = numpy.array([math.inf if c is None else c for c in table["costs"]], float)
            self.tables.append((table["deciders"], table["classes"], costs.reshape(counts)))

    def cost(self, choices: list[int]) -> float:
        """Seconds of one step under one choice for each decider."""
        def layouts(part):
            return part["layouts"][choices[part["decider"]] if part["decider"] >= 0 else 0]
        total = sum(costs[choice] for costs, choice in zip(self.costs, choices))
        for hub, spokes, seconds in self.transfers:
            at = layouts(hub)[0]
            total += sum(seconds[at, to] for to in set().union(*map(layouts, spokes)))
        for deciders, classes, costs in self.tables:
            total += costs[tuple(c[choices[d]] for d, c in zip(deciders, classes))]
        return float(total)


@dataclasses.dataclass
class Optimum:
    choices: list[int]
    seconds: float  # of `choices`, added up
    bound: float    # no choices cost less


class Program:
    """Variables and rows of a mixed integer linear program."""

    def __init__(self):
        self.costs, self.upper, self.rows = [], [], []

    def variable(self, cost: float, upper: float = 1) -> int:
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, terms: dict[int, float], lower: float, upper: float) -> None:
        self.rows.append((terms, lower, upper))

    def solve(self, integers: int, scale: float):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_ = numpy.array(self.costs) * scale
        lp.col_lower_ = numpy.zeros(len(self.costs))
        lp.col_upper_ = numpy.array(self.upper)
        lp.row_lower_ = numpy.array([row[1] for row in self.rows])
        lp.row_upper_ = numpy.array([row[2] for row in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.cumsum([0] + [len(row[0]) for row in self.rows])
        lp.a_matrix_.index_ = numpy.array([i for row in self.rows for i in row[0]])
        lp.a_matrix_.value_ = numpy.array([v for row in self.rows for v in row[0].values()], float)
        kinds = [highspy.HighsVarType.kInteger] * integers
        lp.integrality_ = kinds + [highspy.HighsVarType.kContinuous] * (len(self.costs) - integers)
        solver = highspy.Highs()
        for name, value in [("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0),
                            ("mip_abs_gap", 1e-6), ("mip_max_nodes", NODE_LIMIT)]:
            solver.setOptionValue(name, value)
        solver.passModel(lp)
        solver.run()
        return solver


def minimize(statement: Statement, about: float) -> Optimum:
    """`about`: seconds to which costs are scaled, so that HiGHS' tolerances mean the same for all."""
    program = Program()
    chosen = [[program.variable(cost) for cost in costs] for costs in statement.costs]
    integers = len(program.costs)
    for choices in chosen:
        program.row({x: 1 for x in choices}, 1, 1)
    for hub, spokes, seconds in statement.transfers:
        add_transfer(program, chosen, hub, spokes, seconds)
    for deciders, classes, costs in statement.tables:
        add_table(program, [by_class(chosen[d], c) for d, c in zip(deciders, classes)], costs)
    solver = program.solve(integers, 1000 / about)
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit), status
    values = numpy.array(solver.getSolution().col_value)
    choices = [int(numpy.argmax(values[columns])) for columns in chosen]
    for columns, choice in zip(chosen, choices):
        assert abs(values[columns[choice]] - 1) < 1e-5, "not a choice"
    found = statement.cost(choices)
    objective = solver.getInfo().objective_function_value * about / 1000
    assert abs(found - objective) <= 1e-6 * about, "HiGHS' objective isn't what its choices cost"
    return Optimum(choices, found, solver.getInfo().mip_dual_bound * about / 1000)


def by_class(columns: list[int], classes: list[int]) -> list[list[int]]:
    """The columns of each class."""
    result = [[] for _ in range(max(classes) + 1)]
    for column, each in zip(columns, classes):
        result[each].append(column)
    return result


def add_table(program: Program, groups: list[list[list[int]]], costs: numpy.ndarray) -> None:
    """One variable for each combination of classes, whose sums over the others are the classes chosen."""
    joint = {}
    for index in itertools.product(*map(range, costs.shape)):
        finite = math.isfinite(costs[index])
        joint[index] = program.variable(costs[index] if finite else 0, 1 if finite else 0)
    for position, classes in enumerate(groups):
        for number, columns in enumerate(classes):
            terms = {v: 1.0 for index, v in joint.items() if index[position] == number}
            for column in columns:
                terms[column] = terms.get(column, 0) - 1
            program.row(terms, 0, 0)


def add_transfer(program: Program, chosen, hub: dict, spokes: list[dict], seconds: dict) -> None:
    """Each spoke's layouts come from the hub's; what several spokes share costs once."""
    shared = {to for to in {t for _, t in seconds}
              if sum(any(to in names for names in spoke["layouts"]) for spoke in spokes) > 1}
    needed = {}
    for spoke in spokes:
        for (at, names), variable in pairs(program, chosen, hub, spoke).items():
            for to in names:
                cost = seconds[at, to]
                if not math.isfinite(cost):
                    program.upper[variable] = 0
                elif to not in shared:
                    program.costs[variable] += cost
                elif cost > 0:
                    needed.setdefault((at, to), []).append((id(spoke), variable))
    for (at, to), users in needed.items():
        once = program.variable(seconds[at, to])
        for spoke in {spoke for spoke, _ in users}:
            terms = {variable: -1.0 for user, variable in users if user == spoke}
            program.row({once: 1.0, **terms}, 0, math.inf)


def pairs(program: Program, chosen, hub: dict, spoke: dict) -> dict:
    """A variable for each pair of a hub's layout and a spoke's, 1 where both are chosen."""
    def classes(part):
        if part["decider"] < 0:
            return {key(part["layouts"][0]): None}
        result = {}
        for column, layouts in zip(chosen[part["decider"]], part["layouts"]):
            result.setdefault(key(layouts), []).append(column)
        return result

    def key(layouts):
        return tuple(sorted(layouts))

    joint = {}
    ours, theirs = classes(hub), classes(spoke)
    if hub["decider"] == spoke["decider"] >= 0:  # both at once
        together = {}
        for column, a, b in zip(chosen[hub["decider"]], hub["layouts"], spoke["layouts"]):
            together.setdefault((a[0], key(b)), []).append(column)
        for pair, columns in together.items():
            joint[pair] = program.variable(0)
            program.row({joint[pair]: 1.0, **{column: -1.0 for column in columns}}, 0, 0)
        return joint
    for (at,), names in itertools.product(ours, theirs):
        joint[at, names] = program.variable(0)
    for part, position in ((ours, 0), (theirs, 1)):
        for label, columns in part.items():
            wanted = label[0] if position == 0 else label
            terms = {v: 1.0 for pair, v in joint.items() if pair[position] == wanted}
            for column in columns or []:
                terms[column] = -1.0
            program.row(terms, 0 if columns else 1, 0 if columns else 1)
    return joint
