"""Run one operation of a pass: plan it, then print or perform the plan.

observe → plan → note the bounds → dry run: render the plan; otherwise: the engine performs it through the applier
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.render_plan import render_plan
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.context import PassContext
from thermocline.maintain.engines.engine import MaintenanceEngine
from thermocline.maintain.plans.planning import Observed, Planned, Planner, PlanRequest


def run_operation(operation: Operation, context: PassContext, planner: Planner, engine: MaintenanceEngine) -> Outcome:
    """Plan the operation and let the engine perform the plan; a dry run renders the same plan."""
    with ExitStack() as held:
        request = PlanRequest(operation=operation, context=context, held=held)

        def make_plan(before: Observed) -> Planned:
            return planner(replace(request, before=before))

        planned = make_plan(Observed())
        plan = planned.plan
        context.note_bounds(plan.bounds)
        if plan.refused is not None:
            return Outcome(operation=operation, status="failed", sentence=plan.refused, details=plan.notes)
        if plan.change is None or context.dry_run:
            rendered = render_plan(plan)
            return Outcome(
                operation=operation,
                status="skipped",
                sentence=rendered.sentence,
                counters=plan.idle_counters,
                details=rendered.steps,
                will_run=rendered.will_run,
            )
        return engine.run(plan, Applier(context=context, planned=planned, make_plan=make_plan))
