// A host of apps in a browser: it shows the view of a tool, presses its button, and tells /told what came of it. The page's
// address has the revision that it speaks.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, PostMessageTransport, getToolUiResourceUri } from '@modelcontextprotocol/ext-apps/app-bridge';

const revision = new URLSearchParams(location.search).get('revision');
const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } };
const told = {};
try {
  const client = new Client(
    { name: 'interop-host', version: '1.0.0' },
    { capabilities: { extensions }, versionNegotiation: { mode: revision === 'legacy' ? 'legacy' : { pin: revision } } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href)));
  const { tools } = await client.listTools();
  const tool = tools.find((one) => getToolUiResourceUri(one) && one.name.endsWith('get-time'));
  told.tool = tool.name;
  told.uri = getToolUiResourceUri(tool);
  const { contents } = await client.readResource({ uri: told.uri });
  told.mimeType = contents[0].mimeType;
  const html = contents[0].text ?? atob(contents[0].blob);
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(html)); // pages of loopback may
  told.digest = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

  const frame = document.querySelector('iframe');
  const bridge = new AppBridge(client, { name: 'host', version: '1.0.0' }, { serverTools: {}, serverResources: {}, openLinks: {}, logging: {} });
  const ready = new Promise((resolve) => bridge.addEventListener('initialized', resolve));
  frame.contentDocument.open();
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.contentDocument.write(html);
  frame.contentDocument.close();
  await ready;
  const shown = () => frame.contentDocument.querySelector('#server-time').textContent;
  const differs = async (from) => {
    while (shown() === from) await new Promise((resolve) => setTimeout(resolve, 20));
    return shown();
  };
  const before = shown();
  const result = await client.callTool({ name: tool.name, arguments: {} });
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(result);
  told.first = await differs(before);
  await new Promise((resolve) => setTimeout(resolve, 1100)); // the time has seconds
  frame.contentDocument.querySelector('#get-time-btn').click();
  told.second = await differs(told.first);
  frame.contentDocument.querySelector('#server-time').textContent = 'now'; // no two pictures are taken in the same second
} catch (error) {
  told.error = `${error.stack ?? error}`;
}
await fetch('/told', { method: 'POST', body: JSON.stringify(told) });
