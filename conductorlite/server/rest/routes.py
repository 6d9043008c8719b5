"""Conductor's operations, one row each: method, path, and what is called.

`empty` is the status of an answer without a body (200 unless said). Who polls or changes something needs the role WRITE, who sets
the whole server right ADMIN.
"""

from __future__ import annotations

from typing import Final

import conductorlite.server.rest.awaited as awaited
import conductorlite.server.rest.definitions as definitions
import conductorlite.server.rest.executions as executions
import conductorlite.server.rest.services as services
import conductorlite.server.rest.tasks as tasks
from conductorlite.server.rest.operations import Operation, operation
from conductorlite.server.safety import Role

__all__ = ["OPERATIONS"]

_WRITE: Final = Role.WRITE
_ADMIN: Final = Role.ADMIN

OPERATIONS: Final[tuple[Operation, ...]] = (
    # -- workflow
    operation("POST", "/api/workflow", executions.start),
    operation("PUT", "/api/workflow/bulk/pause", executions.bulk_pause),
    operation("DELETE", "/api/workflow/bulk/remove", executions.bulk_remove),
    operation("POST", "/api/workflow/bulk/restart", executions.bulk_restart),
    operation("PUT", "/api/workflow/bulk/resume", executions.bulk_resume),
    operation("POST", "/api/workflow/bulk/retry", executions.bulk_retry),
    operation("POST", "/api/workflow/bulk/search", executions.bulk_search, role=Role.READ),
    operation("POST", "/api/workflow/bulk/terminate", executions.bulk_terminate),
    operation("DELETE", "/api/workflow/bulk/terminate-remove", executions.bulk_terminate_remove),
    operation("PUT", "/api/workflow/decide/{workflowId}", executions.decide),
    operation("POST", "/api/workflow/execute/{name}/{version}", awaited.execute, empty=200),
    operation("GET", "/api/workflow/external-storage-location", executions.storage_location, role=_WRITE),
    operation("GET", "/api/workflow/externalstoragelocation", executions.storage_location, role=_WRITE),
    operation("GET", "/api/workflow/running/{name}", executions.running),
    operation("GET", "/api/workflow/search", executions.search),
    operation("GET", "/api/workflow/search-by-tasks", executions.search_by_tasks),
    operation("GET", "/api/workflow/search-by-tasks-v2", executions.search_by_tasks_v2),
    operation("GET", "/api/workflow/search-v2", executions.search_v2),
    operation("POST", "/api/workflow/test", awaited.try_out),
    operation("POST", "/api/workflow/{name}", executions.start_named),
    operation("POST", "/api/workflow/{name}/correlated", executions.correlated_with, role=Role.READ),
    operation("GET", "/api/workflow/{name}/correlated/{correlationId}", executions.correlated),
    operation("GET", "/api/workflow/{workflowId}", executions.execution),
    operation("DELETE", "/api/workflow/{workflowId}", executions.terminate),
    operation("PUT", "/api/workflow/{workflowId}/pause", executions.pause),
    operation("DELETE", "/api/workflow/{workflowId}/remove", executions.remove),
    operation("POST", "/api/workflow/{workflowId}/rerun", executions.rerun),
    operation("POST", "/api/workflow/{workflowId}/resetcallbacks", executions.reset_callbacks, empty=204),
    operation("POST", "/api/workflow/{workflowId}/restart", executions.restart, empty=204),
    operation("PUT", "/api/workflow/{workflowId}/resume", executions.resume),
    operation("POST", "/api/workflow/{workflowId}/retry", executions.retry, empty=204),
    operation("PUT", "/api/workflow/{workflowId}/skiptask/{taskReferenceName}", executions.skip_task),
    operation("GET", "/api/workflow/{workflowId}/status", executions.execution_status),
    operation("GET", "/api/workflow/{workflowId}/tasks", executions.execution_tasks),
    operation("DELETE", "/api/workflow/{workflowId}/terminate-remove", executions.terminate_remove),
    # -- tasks
    operation("POST", "/api/tasks", tasks.update_task),
    operation("GET", "/api/tasks/external-storage-location", executions.storage_location, role=_WRITE),
    operation("GET", "/api/tasks/externalstoragelocation", executions.storage_location, role=_WRITE),
    operation("GET", "/api/tasks/poll/batch/{tasktype}", tasks.batch_poll, role=_WRITE),
    operation("GET", "/api/tasks/poll/{tasktype}", tasks.poll, empty=204, role=_WRITE),
    operation("GET", "/api/tasks/queue/all", tasks.queue_all),
    operation("GET", "/api/tasks/queue/all/verbose", tasks.queue_all_verbose),
    operation("GET", "/api/tasks/queue/polldata", tasks.poll_data),
    operation("GET", "/api/tasks/queue/polldata/all", tasks.poll_data_all),
    operation("POST", "/api/tasks/queue/requeue/{taskType}", tasks.requeue),
    operation("GET", "/api/tasks/queue/size", tasks.queue_size),
    operation("GET", "/api/tasks/queue/sizes", tasks.queue_sizes),
    operation("GET", "/api/tasks/search", tasks.search_tasks),
    operation("GET", "/api/tasks/search-v2", tasks.search_tasks_v2),
    operation("POST", "/api/tasks/update-v2", tasks.update_and_poll, empty=204),
    operation("GET", "/api/tasks/{taskId}", tasks.task_by_id),
    operation("GET", "/api/tasks/{taskId}/log", tasks.logs),
    operation("POST", "/api/tasks/{taskId}/log", tasks.log),
    operation("POST", "/api/tasks/{workflowId}/{status}/signal", awaited.signal),
    operation("POST", "/api/tasks/{workflowId}/{status}/signal/sync", awaited.signal_sync),
    operation("POST", "/api/tasks/{workflowId}/{taskRefName}/{status}", tasks.update_by_reference),
    operation("POST", "/api/tasks/{workflowId}/{taskRefName}/{status}/sync", tasks.update_by_reference_sync),
    # -- metadata
    operation("GET", "/api/metadata/taskdefs", definitions.task_defs),
    operation("PUT", "/api/metadata/taskdefs", definitions.update_task_def),
    operation("POST", "/api/metadata/taskdefs", definitions.register_tasks),
    operation("GET", "/api/metadata/taskdefs/{tasktype}", definitions.task_def_named),
    operation("DELETE", "/api/metadata/taskdefs/{tasktype}", definitions.delete_task_def),
    operation("GET", "/api/metadata/workflow", definitions.workflow_defs),
    operation("PUT", "/api/metadata/workflow", definitions.update_workflows),
    operation("POST", "/api/metadata/workflow", definitions.create_workflow),
    operation("GET", "/api/metadata/workflow/latest-versions", definitions.latest_workflows),
    operation("GET", "/api/metadata/workflow/names", definitions.workflow_names),
    operation("GET", "/api/metadata/workflow/names-and-versions", definitions.names_and_versions),
    operation("POST", "/api/metadata/workflow/validate", definitions.validate_workflow, role=Role.READ),
    operation("GET", "/api/metadata/workflow/{name}", definitions.workflow_def_named),
    operation("GET", "/api/metadata/workflow/{name}/versions", definitions.workflow_versions),
    operation("DELETE", "/api/metadata/workflow/{name}/{version}", definitions.delete_workflow),
    # -- event
    operation("GET", "/api/event", definitions.event_handlers),
    operation("PUT", "/api/event", definitions.update_event_handler),
    operation("POST", "/api/event", definitions.add_event_handler),
    operation("GET", "/api/event/{event}", definitions.event_handlers_of),
    operation("DELETE", "/api/event/{name}", definitions.remove_event_handler),
    # -- scheduler
    operation("GET", "/api/scheduler/admin/pause", services.pause_all, role=_ADMIN),
    operation("GET", "/api/scheduler/admin/requeue", services.requeue_all, role=_ADMIN),
    operation("GET", "/api/scheduler/admin/resume", services.resume_all, role=_ADMIN),
    operation("PUT", "/api/scheduler/bulk/pause", services.pause_schedules),
    operation("PUT", "/api/scheduler/bulk/resume", services.resume_schedules),
    operation("GET", "/api/scheduler/nextFewSchedules", services.next_few),
    operation("GET", "/api/scheduler/schedules", services.schedules),
    operation("POST", "/api/scheduler/schedules", services.save_schedule),
    operation("GET", "/api/scheduler/schedules/search", services.search_schedules),
    operation("GET", "/api/scheduler/schedules/{name}", services.schedule),
    operation("DELETE", "/api/scheduler/schedules/{name}", services.remove_schedule),
    operation("PUT", "/api/scheduler/schedules/{name}/pause", services.pause_schedule),
    operation("PUT", "/api/scheduler/schedules/{name}/resume", services.resume_schedule),
    operation("GET", "/api/scheduler/search/executions", services.schedule_executions),
    # -- queue, admin, and what stands alone
    operation("GET", "/api/queue/", services.queue_names),
    operation("GET", "/api/queue/size", services.queue_status_sizes),
    operation("POST", "/api/queue/update/{workflowId}/task/{taskId}/{status}", services.update_by_id),
    operation("POST", "/api/queue/update/{workflowId}/{taskRefName}/{status}", services.update_first),
    operation("GET", "/api/admin/config", services.admin_config, role=_ADMIN),
    operation("POST", "/api/admin/consistency/verifyAndRepair/{workflowId}", services.repair, role=_ADMIN),
    operation("GET", "/api/admin/queues", services.admin_queues),
    operation("POST", "/api/admin/sweep/requeue/{workflowId}", services.sweep),
    operation("GET", "/api/admin/task/{tasktype}", services.admin_tasks),
    operation("GET", "/api/secrets", services.secret_names),
    operation("GET", "/api/environment", services.environment, role=_ADMIN),
    operation("GET", "/api/environment/{key}", services.environment_value, role=_ADMIN),
    operation("GET", "/api/health", services.health),
    operation("GET", "/health", services.health),
    operation("GET", "/api/version", services.version),
    operation("GET", "/context.js", services.context),
)
