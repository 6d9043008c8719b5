// The step in JavaScript: `CONDUCTOR_SERVER_URL=http://127.0.0.1:8400/api node book.mjs`.
import { TaskManager, orkesConductorClient } from "@io-orkes/conductor-javascript";

const client = await orkesConductorClient({ serverUrl: process.env.CONDUCTOR_SERVER_URL });
const execute = async (task) => ({
  status: "COMPLETED",
  outputData: { booking: `B-${task.inputData.price}` },
});
new TaskManager(client, [{ taskDefName: "book", execute }], { options: { pollInterval: 100 } }).startPolling();
