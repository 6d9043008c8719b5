"""The ten-line example of the README: one workflow of one task, kept in a SQLite file."""

from conductorlite import Engine, Workers, WorkflowDef, WorkflowTask

workers = Workers()


@workers.task("greet", retry_count=3, retry_delay_seconds=1)
def greet(name: str) -> dict[str, str]:
    return {"text": f"Hello, {name}!"}


task = WorkflowTask(name="greet", task_reference_name="greet", input_parameters={"name": "${workflow.input.name}"})
with Engine("hello.db", workers=workers) as engine:
    run = engine.start(WorkflowDef(name="hello", tasks=[task]), {"name": "world"})
    print(run.result(timeout="30s")["text"])
