"""Runs the DAG of deploy/airflow as Airflow does, in one process: python airflow_dag.py FOLDER COMMAND [PLAN OUT ...].

Its last line is JSON: what could not be imported, the tasks in order, and the states of each run.
"""

import json
import sys

from airflow.cli.cli_parser import get_parser
from airflow.dag_processing.dagbag import DagBag

folder, command, *paths = sys.argv[1:]
for arguments in (["db", "migrate"], ["dags", "reserialize"]):
    parsed = get_parser().parse_args(arguments)
    parsed.func(parsed)
bag = DagBag(folder)
dag = bag.dags["minsep_run"]
runs = []
for plan, out in zip(paths[::2], paths[1::2]):
    run = dag.test(run_conf={"command": command, "plan": plan, "out": out, "flags": ["--log-level", "warn"]})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    runs.append({"state": str(run.state), "states": states})
print(json.dumps({"errors": bag.import_errors, "tasks": [t.task_id for t in dag.topological_sort()], "runs": runs}))
