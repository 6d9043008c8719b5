"""The story through conductor-python: `CONDUCTOR_SERVER_URL=… python python_client.py`; run with the client's own Python."""

import json
import time

from conductor.client.automator.task_handler import TaskHandler
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.models import SaveScheduleRequest, StartWorkflowRequest, TaskDef, WorkflowDef
from conductor.client.http.models.workflow_task import WorkflowTask
from conductor.client.orkes_clients import OrkesClients
from conductor.client.worker.worker_task import worker_task

TRIES = []


@worker_task(task_definition_name="flaky")
def flaky(name: str, attempt: int) -> dict:
    """Fails unless it is a retry, which its workflow says by nothing: the worker counts itself."""
    TRIES.append(name)
    if len(TRIES) % 2:
        raise RuntimeError("not yet")
    return {"text": f"Hello, {name}"}


def tell() -> None:
    configuration = Configuration()
    clients = OrkesClients(configuration=configuration)
    metadata, flows, tasks = clients.get_metadata_client(), clients.get_workflow_client(), clients.get_task_client()
    metadata.register_task_def(
        TaskDef(name="flaky", retry_count=2, retry_delay_seconds=0, response_timeout_seconds=30, timeout_seconds=60)
    )
    steps = [
        WorkflowTask(name="flaky", task_reference_name="f", input_parameters={"name": "${workflow.input.name}", "attempt": 1}),
        WorkflowTask(name="wait", task_reference_name="w", type="WAIT"),
        WorkflowTask(name="set", task_reference_name="s", type="SET_VARIABLE", input_parameters={"seen": True}),
    ]
    definition = WorkflowDef(name="story", version=1, tasks=steps, output_parameters={"text": "${f.output.text}"}, schema_version=2)
    metadata.register_workflow_def(definition, overwrite=True)
    said = {}
    with TaskHandler(configuration=configuration, scan_for_annotated_workers=True) as handler:
        handler.start_processes()
        request = StartWorkflowRequest(name="story", version=1, input={"name": "world"}, correlation_id="c")
        run = flows.execute_workflow(request, request_id="r", wait_until_task_ref="", wait_for_seconds=30)
        said["blocked"] = run.status
        flows.pause_workflow(run.workflow_id)
        said["paused"] = flows.get_workflow_status(run.workflow_id).status
        flows.resume_workflow(run.workflow_id)
        tasks.update_task_by_ref_name(run.workflow_id, "w", "COMPLETED", {"ok": True})
        for _ in range(100):
            whole = flows.get_workflow(run.workflow_id, include_tasks=True)
            if whole.status != "RUNNING":
                break
            time.sleep(0.1)
        handler.stop_processes()
    said["ended"], said["output"] = whole.status, whole.output
    said["tasks"] = [[task.reference_task_name, task.status] for task in whole.tasks]
    other = flows.start_workflow(request)
    flows.terminate_workflow(other, "enough")
    said["terminated"] = flows.get_workflow(other).reason_for_incompletion
    flows.restart_workflow(other)
    said["restarted"] = flows.get_workflow_status(other).status
    flows.terminate_workflow(other)
    said["found"] = len(flows.search(query="workflowType='story' AND status IN (COMPLETED,TERMINATED)").results)
    said["correlated"] = len(flows.get_by_correlation_ids("story", ["c"], include_completed=True)["c"])
    schedules = clients.get_scheduler_client()
    schedules.save_schedule(SaveScheduleRequest(name="nightly", cron_expression="0 0 2 * * *", start_workflow_request=request))
    said["schedule"] = schedules.get_schedule("nightly").cron_expression
    schedules.delete_schedule("nightly")
    metadata.unregister_workflow_def("story", 1)
    print("STORY " + json.dumps(said))


if __name__ == "__main__":
    tell()
