"""Workers: plain functions that carry out tasks, and how one call of one is made."""

from conductorlite.worker.calls import Deferred, call
from conductorlite.worker.context import TaskContext
from conductorlite.worker.current import TaskLogFilter, current_task
from conductorlite.worker.pool import Pool
from conductorlite.worker.registry import Worker, Workers

__all__ = ["Deferred", "Pool", "TaskContext", "TaskLogFilter", "Worker", "Workers", "call", "current_task"]
