// A client of the second generation: node v2.mjs legacy|REVISION URL TOKEN
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { story, tell } from './story.mjs';

const [revision, url, token] = process.argv.slice(2);
let resolve;
const changed = new Promise((r) => (resolve = r));
const client = new Client(
  { name: 'interop-v2', version: '1.0.0' },
  {
    capabilities: {},
    versionNegotiation: { mode: revision === 'legacy' ? 'legacy' : { pin: revision } },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => resolve() } },
  },
);
client.generation = 2;
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
tell('connected', { revision: client.getNegotiatedProtocolVersion(), server: client.getServerVersion()?.name });
await story(client, changed);
