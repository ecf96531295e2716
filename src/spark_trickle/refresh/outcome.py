"""What the nodes of a refresh came to."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.algebra.references import NodeRef
from spark_trickle.model.execution import Execution
from spark_trickle.refresh.execute import Done, Filled


@dataclass(frozen=True)
class Outcome:
    """What happened to the result; what took more than the change itself, and why; what was executed."""

    filled: Filled = Filled()  # noqa: RUF009 a value
    remarks: tuple[str, ...] = ()
    executions: tuple[Execution, ...] = ()

    def add_node(self, done: Done, node: NodeRef) -> Outcome:
        """After one more node, which is the result if it is the last."""
        remarks, executions = (*self.remarks, *done.remarks), (*self.executions, *done.executions)
        return Outcome(done.filled[node], remarks, executions)
