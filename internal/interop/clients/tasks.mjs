// A client of the first generation that runs a tool as a task, and one whose server answers at once:
// node tasks.mjs URL TOKEN TOOL [QUICK]
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { tell } from './story.mjs';

const [url, token, name, quick] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const client = new Client({ name: 'interop-tasks', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } } });
let related;
client.setRequestHandler(ElicitRequestSchema, (request) => {
  related = request.params._meta?.['io.modelcontextprotocol/related-task']?.taskId;
  return { action: 'accept', content: { interpretation: 'snake' } };
});
await client.connect(transport);
const tool = (await client.listTools()).tools.find((one) => one.name === name);
tell('listed', { text: tool?.execution?.taskSupport });

let id;
const statuses = [];
for await (const message of client.experimental.tasks.callToolStream({ name, arguments: { topic: 'python', ambiguous: true } })) {
  switch (message.type) {
    case 'taskCreated':
      id = message.task.taskId;
      break;
    case 'taskStatus':
      statuses.push(message.task.status);
      break;
    case 'result':
      tell('result', { text: message.result.content[0].text, isError: message.result.isError ?? false });
      break;
    default:
      tell('result', { text: String(message.error), isError: true });
  }
}
tell('statuses', { names: statuses });
tell('related', { text: related === undefined ? 'nothing' : related === id ? 'the task' : 'another' });
tell('after', { text: (await client.experimental.tasks.getTask(id)).status });

const second = client.experimental.tasks.callToolStream({ name, arguments: { topic: 'go' } });
for await (const message of second) {
  if (message.type === 'taskCreated') {
    tell('cancelled', { text: (await client.experimental.tasks.cancelTask(message.task.taskId)).status });
    break;
  }
}
if (quick) {
  const told = [];
  for await (const message of client.experimental.tasks.callToolStream({ name: quick, arguments: { name: 'Ann' } })) {
    told.push(message.type === 'result' ? message.result.content[0].text : message.type);
  }
  tell('quick', { names: told });
}
await client.close();
