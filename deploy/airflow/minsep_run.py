"""A plan of minsep as a DAG of Airflow 3: checked, run, and inspected before anything trains on it.

The tasks run the command where the worker of Airflow is. The pipelines run there too, or, with
``--runner`` and its flags in the parameter ``flags``, on Flink or Dataflow.
"""

import json
import subprocess
from datetime import timedelta

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator, Param, task


class MinsepOperator(BaseOperator):
    """Runs a command of minsep.

    A command that was stopped, or failed with its machine, is repeated as ``retries`` says, and
    resumes. One that refuses its input (exit code 2), or cannot verify a guarantee (3), fails
    without a retry: it would end the same way.

    :param arguments: the arguments of the command, each a template.
    :param flags: a template of further arguments, rendered as a list.
    """

    template_fields = ("arguments", "flags", "command")

    def __init__(self, *, arguments: list[str], flags="{{ params.flags }}", command: str = "{{ params.command }}", **kwargs):
        super().__init__(**kwargs)
        self.arguments, self.flags, self.command = arguments, flags, command
        self._hook = SubprocessHook()

    def execute(self, context):
        call = [self.command, *self.arguments, *self.flags]
        code = self._hook.run_command(call).exit_code
        if code in (2, 3):
            raise AirflowFailException(f"{call}: exit code {code}")
        if code != 0:
            raise AirflowException(f"{call}: exit code {code}; a retry resumes")

    def on_kill(self):
        self._hook.send_sigterm()  # the command ends its job, and can be repeated


@task
def inspect(command: str, out: str):
    """Fails unless the run is certified, and its batches and noise are those of its certificate."""
    done = subprocess.run([command, "inspect", out, "--json"], stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout) if done.stdout else {}
    print(said.get("verdict"))
    if done.returncode != 0 or said.get("state") != "certified":
        raise AirflowFailException(f"{out}: {said.get('verdict', 'could not be read')}")


with DAG(
    "minsep_run",
    description="a plan of minsep, to a certificate, batches and noise",
    schedule=None,  # a run serves one training, and is not made by the calendar
    max_active_runs=1,
    render_template_as_native_obj=True,  # flags are a list
    default_args={"retries": 0},
    params={
        "plan": Param("/minsep/plan.json", type="string", description="plan file, on the worker"),
        "out": Param("/minsep/run", type="string", description="run directory to write to"),
        "flags": Param([], type="array", items={"type": "string"}, description="a runner and its flags"),
        "command": Param("minsep", type="string", description="the command, by name or path"),
    },
) as dag:
    run = ["run", "{{ params.plan }}", "--out", "{{ params.out }}"]
    check = MinsepOperator(task_id="check", arguments=[*run, "--dry-run"])
    make = MinsepOperator(task_id="run", arguments=run, retries=3, retry_delay=timedelta(minutes=1))
    report = MinsepOperator(task_id="report", arguments=["report", "{{ params.out }}"], flags=[])
    check >> make >> inspect("{{ params.command }}", "{{ params.out }}") >> report
