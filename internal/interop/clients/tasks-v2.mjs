// A client of the second generation, with its package of tasks, that runs a tool as a task, and cancels another:
// node tasks-v2.mjs URL TOKEN TOOL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { tell } from './story.mjs';

const [url, token, name] = process.argv.slice(2);
const authorization = { Authorization: `Bearer ${token}` };
const protocolVersion = '2026-07-28';
const clientInfo = { name: 'interop-tasks-v2', version: '1.0.0' };
const clientCapabilities = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: { pin: protocolVersion } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: authorization } }));
const tools = (await client.listTools()).tools;
tell('listed', { names: tools.map((tool) => tool.name) });

// The package leaves requests about tasks to its host, because the SDK's own client refuses them.
let id = 0;
async function rawDispatch(request, options = {}) {
  const { method, params } = request;
  const response = await fetch(url, {
    method: 'POST', signal: options.signal,
    headers: {
      ...authorization, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
      'Mcp-Protocol-Version': protocolVersion, 'Mcp-Method': method, 'Mcp-Name': params.name ?? params.taskId,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
  });
  const text = await response.text();
  const answer = JSON.parse(text.startsWith('{') ? text : text.split('\n').findLast((line) => line.startsWith('data: {')).slice(6));
  return answer.error ? { kind: 'error', error: answer.error } : { kind: 'result', result: answer.result };
}
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: 'interop', rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: (request, context) => {
    asked.push(`${request.kind} by ${context.delivery}`);
    return { action: 'accept', content: { interpretation: 'snake' } };
  },
});

const execution = await session.callTool(name, { topic: 'python', ambiguous: true });
const { outcome, lastTask } = await execution.settle();
const result = resultFromTaskOutcome(outcome);
tell('result', { text: result.content[0].text, isError: result.isError ?? false });
tell('asked', { names: asked });
tell('kind', { text: execution.kind });
tell('after', { text: lastTask?.status });

const second = await session.callTool(name, { topic: 'go' });
await second.cancel();
const cancelled = await rawDispatch({
  method: 'tasks/get',
  params: {
    taskId: second.handle.taskId,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': protocolVersion, 'io.modelcontextprotocol/clientInfo': clientInfo,
      'io.modelcontextprotocol/clientCapabilities': clientCapabilities,
    },
  },
});
tell('cancelled', { text: cancelled.result?.status ?? JSON.stringify(cancelled.error) });
await session.close();
await client.close();
