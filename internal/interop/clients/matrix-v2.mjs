// A client of the second generation: node matrix-v2.mjs REVISION URL TOKEN PREFIX URIPREFIX NOTES MARKER FEATURES HOPELESS
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { address, answers, capabilities, headers, matrix, nothingSeen } from './matrix.mjs';

const seen = nothingSeen();
const client = new Client({ name: 'matrix-v2', version: '1.0.0' }, {
  capabilities,
  versionNegotiation: { mode: { pin: process.argv[2] } },
  listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void seen.changes++ } },
});
const { elicit, sample, roots } = answers(seen);
client.setRequestHandler('elicitation/create', elicit);
client.setRequestHandler('sampling/createMessage', sample);
client.setRequestHandler('roots/list', roots);
client.setNotificationHandler('notifications/message', (n) => void seen.logs.push(n.params));
client.setNotificationHandler('notifications/resources/updated', (n) => void seen.updates.push(n.params.uri));
await client.connect(new StreamableHTTPClientTransport(address, { requestInit: { headers } }));

await matrix({
  tools: async () => (await client.listTools({}, { cacheMode: 'bypass' })).tools,
  prompts: async () => (await client.listPrompts()).prompts,
  resources: async () => (await client.listResources()).resources,
  templates: async () => (await client.listResourceTemplates()).resourceTemplates,
  call: (name, args, { onprogress, signal, loud } = {}) => client.callTool(
    { name, arguments: args, ...(loud && { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } }) },
    { ...(onprogress && { onprogress }), signal },
  ),
  read: (uri) => client.readResource({ uri }),
  prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  complete: (ref, argument) => client.complete({ ref, argument }),
  loud: async () => {}, // said with each call
  subscribe: (uri) => client.listen({ resourceSubscriptions: [uri] }),
}, seen);
