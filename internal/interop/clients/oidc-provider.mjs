// A provider of OpenID Connect on loopback: node oidc-provider.mjs PORT SETTINGS, which is JSON of what the provider's own configuration
// has beside this, with the member "logout" for where logout tokens of the client drawbridge go.
import { Provider } from 'oidc-provider';

const [port, settings] = process.argv.slice(2);
const { logout, client, ...own } = JSON.parse(settings);
const people = {
  alice: { email: 'alice@example.com', email_verified: true, groups: ['payments', 'search'] },
};

const drawbridge = {
  client_id: 'drawbridge',
  client_secret: 'a-client-secret-of-some-length',
  redirect_uris: ['https://mcp.example.com/callback/login'],
  grant_types: ['authorization_code', 'refresh_token'],
  ...(logout && { backchannel_logout_uri: logout, backchannel_logout_session_required: true }),
  ...client,
};
if (drawbridge.client_secret === null) delete drawbridge.client_secret;

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [drawbridge],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
  // Without a prompt for consent the library gives no refresh token to clients of this kind, as the standard wants.
  issueRefreshToken: async () => true,
  pairwiseIdentifier: async (_, sub, { clientId }) => `${sub}-for-${clientId}`,
  // The library's own way out does not go to loopback, where the gateway is.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  cookies: { keys: ['a key for tests'] },
  ...own,
});
provider.on('backchannel.error', (_, error) => console.log('no logout', error));
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
