// The story through Java's clients; the test puts `http` or `grpc` for KIND, and how its clients are made for CLIENTS.
import com.netflix.conductor.client.KIND.*;
import com.netflix.conductor.common.metadata.tasks.*;
import com.netflix.conductor.common.metadata.workflow.*;
import com.netflix.conductor.common.run.Workflow;
import java.util.*;
import java.util.stream.*;

public class JavaClient {
  static WorkflowTask step(String name, String ref, String type, Map<String, Object> input) {
    WorkflowTask task = new WorkflowTask();
    task.setName(name);
    task.setTaskReferenceName(ref);
    task.setType(type);
    task.setInputParameters(input);
    return task;
  }

  static void end(TaskClient tasks, Task task, TaskResult.Status status, Map<String, Object> output) {
    TaskResult result = new TaskResult(task);
    result.setStatus(status);
    result.getOutputData().putAll(output);
    tasks.updateTask(result);
  }

  static Task polled(TaskClient tasks) {
    for (int i = 0; i < 50; i++)
      for (Task task : tasks.batchPollTasksByTaskType("flaky", "w", 1, 1000)) return task;
    throw new IllegalStateException("nothing to do");
  }

  public static void main(String[] address) throws Exception {
    CLIENTS
    TaskDef flaky = new TaskDef("flaky");
    flaky.setOwnerEmail("a@example.com");
    flaky.setRetryCount(2);
    flaky.setRetryDelaySeconds(0);
    flaky.setTimeoutSeconds(60);
    flaky.setResponseTimeoutSeconds(30);
    metadata.registerTaskDefs(List.of(flaky));
    WorkflowDef story = new WorkflowDef();
    story.setName("story");
    story.setVersion(1);
    story.setOwnerEmail("a@example.com");
    story.setTasks(List.of(
        step("flaky", "f", "SIMPLE", Map.of("name", "${workflow.input.name}")),
        step("wait", "w", "WAIT", Map.of()),
        step("set", "s", "SET_VARIABLE", Map.of("seen", true))));
    story.setOutputParameters(Map.of("text", "${f.output.text}"));
    metadata.updateWorkflowDefs(List.of(story));
    StartWorkflowRequest request =
        new StartWorkflowRequest().withName("story").withVersion(1).withInput(Map.of("name", "world")).withCorrelationId("c");
    String id = workflows.startWorkflow(request);
    end(tasks, polled(tasks), TaskResult.Status.FAILED, Map.of());
    Task again = polled(tasks);
    end(tasks, again, TaskResult.Status.COMPLETED, Map.of("text", "Hello, " + again.getInputData().get("name")));
    Map<String, String> said = new LinkedHashMap<>();
    said.put("blocked", workflows.getWorkflow(id, false).getStatus().name());
    workflows.pauseWorkflow(id);
    said.put("paused", workflows.getWorkflow(id, false).getStatus().name());
    workflows.resumeWorkflow(id);
    Task waiting = workflows.getWorkflow(id, true).getTasks().stream().filter(t -> t.getReferenceTaskName().equals("w")).findAny().get();
    end(tasks, waiting, TaskResult.Status.COMPLETED, Map.of("ok", true));
    Workflow whole = workflows.getWorkflow(id, true);
    said.put("ended", whole.getStatus().name());
    said.put("output", String.valueOf(whole.getOutput().get("text")));
    said.put("tasks", whole.getTasks().stream().map(t -> t.getReferenceTaskName() + " " + t.getStatus()).collect(Collectors.joining(",")));
    String other = workflows.startWorkflow(request);
    workflows.terminateWorkflow(other, "enough");
    said.put("terminated", workflows.getWorkflow(other, false).getReasonForIncompletion());
    workflows.restart(other, false);
    said.put("restarted", workflows.getWorkflow(other, false).getStatus().name());
    workflows.terminateWorkflow(other, "over");
    said.put("found", "" + workflows.search("workflowType='story' AND status IN (COMPLETED,TERMINATED)").getTotalHits());
    said.put("running", "" + workflows.getRunningWorkflow("story", 1).size());
    System.out.println("STORY " + said.entrySet().stream()
        .map(e -> "\"" + e.getKey() + "\": \"" + e.getValue() + "\"").collect(Collectors.joining(", ", "{", "}")));
    System.exit(0);
  }
}
