// A client of the first generation: node matrix-v1.mjs http|sse URL TOKEN PREFIX URIPREFIX NOTES MARKER FEATURES HOPELESS
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { address, answers, capabilities, headers, matrix, nothingSeen } from './matrix.mjs';

const requestInit = { headers };
const transport = process.argv[2] === 'sse'
  ? new SSEClientTransport(address, {
      requestInit,
      eventSourceInit: { fetch: (u, init) => fetch(u, { ...init, headers: { ...init.headers, ...headers } }) },
    })
  : new StreamableHTTPClientTransport(address, { requestInit });

const seen = nothingSeen();
const client = new Client({ name: 'matrix-v1', version: '1.0.0' }, { capabilities });
const { elicit, sample, roots } = answers(seen);
client.setRequestHandler(ElicitRequestSchema, elicit);
client.setRequestHandler(CreateMessageRequestSchema, sample);
client.setRequestHandler(ListRootsRequestSchema, roots);
client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => void seen.logs.push(n.params));
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void seen.changes++);
client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => void seen.updates.push(n.params.uri));
await client.connect(transport);

await matrix({
  tools: async () => (await client.listTools()).tools,
  prompts: async () => (await client.listPrompts()).prompts,
  resources: async () => (await client.listResources()).resources,
  templates: async () => (await client.listResourceTemplates()).resourceTemplates,
  call: (name, args, { onprogress, signal } = {}) => client.callTool({ name, arguments: args }, undefined, { ...(onprogress && { onprogress }), signal }),
  read: (uri) => client.readResource({ uri }),
  prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  complete: (ref, argument) => client.complete({ ref, argument }),
  loud: () => client.setLoggingLevel('info'),
  subscribe: (uri) => client.subscribeResource({ uri }),
}, seen);
