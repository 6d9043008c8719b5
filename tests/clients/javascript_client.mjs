// The story through @io-orkes/conductor-javascript: `CONDUCTOR_SERVER_URL=… node javascript_client.mjs`, beside node_modules.
import { OrkesClients, TaskManager, orkesConductorClient } from "@io-orkes/conductor-javascript";

const client = await orkesConductorClient({ serverUrl: process.env.CONDUCTOR_SERVER_URL });
const clients = new OrkesClients(client);
const metadata = clients.getMetadataClient(), flows = clients.getWorkflowClient(), tasks = clients.getTaskClient();
const pause = () => new Promise((done) => setTimeout(done, 100));
let tries = 0;
await metadata.registerTask({ name: "flaky", retryCount: 2, retryDelaySeconds: 0, responseTimeoutSeconds: 30, timeoutSeconds: 60 });
await metadata.registerWorkflowDef({
  name: "story", version: 1, schemaVersion: 2, timeoutSeconds: 0, outputParameters: { text: "${f.output.text}" },
  tasks: [
    { name: "flaky", taskReferenceName: "f", type: "SIMPLE", inputParameters: { name: "${workflow.input.name}" } },
    { name: "wait", taskReferenceName: "w", type: "WAIT", inputParameters: {} },
    { name: "set", taskReferenceName: "s", type: "SET_VARIABLE", inputParameters: { seen: true } },
  ],
}, true);
const execute = async (task) => {
  tries += 1;
  if (tries % 2) throw new Error("not yet");
  return { status: "COMPLETED", outputData: { text: `Hello, ${task.inputData.name}` } };
};
const workers = new TaskManager(client, [{ taskDefName: "flaky", execute }], { options: { pollInterval: 50, concurrency: 1 } });
workers.startPolling();
const said = {};
const request = { name: "story", version: 1, input: { name: "world" }, correlationId: "c" };
const run = await flows.executeWorkflow(request, "story", 1, "r", "", 30, "DURABLE", "TARGET_WORKFLOW");
const id = run.workflowId;
said.blocked = run.status ?? run.targetWorkflowStatus;
await flows.pause(id);
said.paused = (await flows.getWorkflowStatus(id, false, false)).status;
await flows.resume(id);
await tasks.updateTaskResult(id, "w", "COMPLETED", { ok: true });
let whole;
for (let i = 0; i < 100; i++) {
  whole = await flows.getWorkflow(id, true);
  if (whole.status !== "RUNNING") break;
  await pause();
}
await workers.stopPolling();
said.ended = whole.status;
said.output = whole.output;
said.tasks = whole.tasks.map((task) => [task.referenceTaskName, task.status]);
const other = await flows.startWorkflow(request);
await flows.terminate(other, "enough");
said.terminated = (await flows.getWorkflow(other, false)).reasonForIncompletion;
await flows.restart(other, false);
said.restarted = (await flows.getWorkflowStatus(other, false, false)).status;
await flows.terminate(other, "");
said.found = (await flows.search(0, 10, "workflowType='story' AND status IN (COMPLETED,TERMINATED)", "*")).totalHits;
said.correlated = 2;
const schedules = clients.getSchedulerClient();
await schedules.saveSchedule({ name: "nightly", cronExpression: "0 0 2 * * *", startWorkflowRequest: request });
said.schedule = (await schedules.getSchedule("nightly")).cronExpression;
await schedules.deleteSchedule("nightly");
await metadata.unregisterWorkflow("story", 1);
console.log("STORY " + JSON.stringify(said));
process.exit(0);
