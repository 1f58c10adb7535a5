// A client that signs in: node signin.mjs GENERATION URL BROWSER TENANT. Each line of standard input names a tool, which it calls; it prints
// what came, and signs in before that if it has to.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const [generation, url, browser, tenant] = process.argv.slice(2);
const { Client } = await import(generation === '1' ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await import(
  generation === '1' ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client');

// What the browser brings back for the sign-in that was begun last: an SDK may begin several, for requests beside each other.
let answer, came;
const callback = createServer((request, response) => {
  const query = new URL(request.url, 'http://callback').searchParams;
  if (query.get('state') === kept.state) came?.(query);
  response.end('Done.');
});
await new Promise((resolve) => callback.listen(0, '127.0.0.1', resolve));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadataUrl: process.env.DOCUMENT, // without: it registers itself
  clientMetadata: {
    client_name: `SDK ${generation}`, redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  },
  state: () => (kept.state = crypto.randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  redirectToAuthorization: (address) => {
    answer ??= new Promise((resolve) => (came = resolve));
    fetch(`${browser}/open?tenant=${tenant}`, { method: 'POST', body: String(address) });
  },
  invalidateCredentials: (what) => {
    if (what === 'all' || what === 'client') delete kept.client;
    if (what === 'all' || what === 'tokens') delete kept.tokens;
  },
};

let client, transport;
async function connected() {
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  client = new Client({ name: `sdk-${generation}`, version: '1.0.0' }, { capabilities: {} });
  await client.connect(transport);
}

async function call(name) {
  if (!client) await connected();
  const args = name.endsWith('calculate') ? { expression: '6*7' } : { timezone: 'UTC' };
  const result = await client.callTool({ name, arguments: args });
  return result.content[0].text;
}

// What the SDKs want of a program: where UnauthorizedError is thrown, the answer of the browser is handed over, and it goes on.
async function signedIn(name) {
  for (let round = 0; ; round++) {
    try {
      return { text: await call(name) };
    } catch (e) {
      if (!answer || round === 2) return { error: `${e.constructor.name}: ${e.message}` };
      const query = await answer;
      answer = undefined;
      await transport.finishAuth(generation === '1' ? query.get('code') : query);
      await client.close(); // its stream would sign in, too
      client = undefined;
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await signedIn(line)));
process.exit(0);
