"""Load against any Kafka bootstrap, measured from the client's side."""

from frazil.admin.bench.plan import BenchPlan, plan_of_workload
from frazil.admin.bench.report import BenchReport, Phase
from frazil.admin.bench.run import run_bench

__all__ = ["BenchPlan", "BenchReport", "Phase", "plan_of_workload", "run_bench"]
