"""Imports the DAG of deploy/airflow as Airflow does, and runs its tasks: python airflow_dag.py FOLDER COMMAND PLAN OUT.

Prints a line of JSON: what could not be imported, the tasks in order, and the state of each after
a run.
"""

import json
import sys

from airflow.dag_processing.dagbag import DagBag

folder, command, plan, out = sys.argv[1:]
bag = DagBag(folder)
dag = bag.dags["minsep_run"]
run = dag.test(run_conf={"command": command, "plan": plan, "out": out, "flags": ["--log-level", "warn"]})
states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
print(json.dumps({"errors": bag.import_errors, "tasks": [t.task_id for t in dag.topological_sort()], "state": str(run.state), "states": states}))
