"""System workers: functions we ship for task types that Conductor's server carries out and that touch the world outside.

`system_workers` gives them; nothing is included by itself. HTTP needs the extra `http`; EVENT and KAFKA_PUBLISH publish to
`Sink`s, one per scheme. `MemoryQueue` is a sink and a source of messages in one.
"""

from conductorlite.system.queues import MemoryQueue
from conductorlite.system.sinks import MemorySink, Published, Sink
from conductorlite.system.workers import system_workers

__all__ = ["MemoryQueue", "MemorySink", "Published", "Sink", "system_workers"]
