// A client of the first generation: node v1.mjs http|sse URL TOKEN
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { story, tell } from './story.mjs';

const [kind, url, token] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const transport = kind === 'sse'
  ? new SSEClientTransport(new URL(url), {
      requestInit,
      eventSourceInit: { fetch: (u, init) => fetch(u, { ...init, headers: { ...init.headers, ...requestInit.headers } }) },
    })
  : new StreamableHTTPClientTransport(new URL(url), { requestInit });

const client = new Client({ name: 'interop-v1', version: '1.0.0' }, { capabilities: {} });
const changed = new Promise((resolve) => {
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve());
});
await client.connect(transport);
tell('connected', { revision: transport.protocolVersion ?? null, server: client.getServerVersion()?.name });
await story(client, changed);
