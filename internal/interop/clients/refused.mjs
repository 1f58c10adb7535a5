// A client whose token is refused: node refused.mjs v1|v2 given|oauth URL TOKEN. It prints what its user would read. One
// that is given its token only sends it; one of the kind oauth would also get tokens for itself.
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as SecondClient, StreamableHTTPClientTransport as SecondTransport } from '@modelcontextprotocol/client';
import { tell } from './story.mjs';

const [generation, kind, url, token] = process.argv.slice(2);
const [Client, Transport] = generation === 'v1' ? [FirstClient, FirstTransport] : [SecondClient, SecondTransport];
const redirectUrl = 'http://127.0.0.1:1/callback';
let information;
const authProvider = {
  redirectUrl,
  clientMetadata: { redirect_uris: [redirectUrl], client_name: 'interop' },
  clientInformation: () => information,
  saveClientInformation: (given) => (information = given),
  tokens: () => undefined,
  saveTokens: () => {},
  saveCodeVerifier: () => {},
  codeVerifier: () => 'verifier',
  redirectToAuthorization: (to) => tell('redirected', { text: String(to) }),
};
const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } }, ...(kind === 'oauth' && { authProvider }) };
const client = new Client({ name: 'interop-refused', version: '1.0.0' }, { capabilities: {} });
try {
  await client.connect(new Transport(new URL(url), options));
  tell('connected');
  await client.close();
} catch (error) {
  tell('refused', { text: String(error) });
}
