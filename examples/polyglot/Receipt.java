// The step in Java: `java -cp JARS:. Receipt http://127.0.0.1:8400/api`, with the jars of org.conductoross:conductor-client.
import com.netflix.conductor.client.automator.TaskRunnerConfigurer;
import com.netflix.conductor.client.http.ConductorClient;
import com.netflix.conductor.client.http.TaskClient;
import com.netflix.conductor.client.worker.Worker;
import com.netflix.conductor.common.metadata.tasks.Task;
import com.netflix.conductor.common.metadata.tasks.TaskResult;
import java.util.List;

public class Receipt implements Worker {
  public String getTaskDefName() {
    return "receipt";
  }

  public TaskResult execute(Task task) {
    TaskResult result = new TaskResult(task);
    result.setStatus(TaskResult.Status.COMPLETED);
    result.getOutputData().put("text", "Paid: " + task.getInputData().get("booking"));
    return result;
  }

  public static void main(String[] address) {
    TaskClient tasks = new TaskClient(ConductorClient.builder().basePath(address[0]).build());
    new TaskRunnerConfigurer.Builder(tasks, List.of(new Receipt())).withThreadCount(1).build().init();
  }
}
