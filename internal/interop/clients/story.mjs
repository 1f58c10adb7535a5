// The story that every client from npm goes through: list, call with progress, a tool error, a changed list. Each step
// is one line of JSON on standard output.
export function tell(step, facts = {}) {
  process.stdout.write(JSON.stringify({ step, ...facts }) + '\n');
}

export async function story(client, listChanged) {
  tell('tools', { names: (await client.listTools()).tools.map((tool) => tool.name) });

  const progress = [];
  const done = await call(client, 'test_tool_with_progress', (p) => progress.push(p.progress));
  tell('progress', { progress, text: done.content[0]?.text });

  const failed = await call(client, 'test_error_handling');
  tell('error', { isError: failed.isError, text: failed.content[0]?.text });

  tell('waiting');
  await listChanged;
  tell('changed', { names: (await client.listTools()).tools.map((tool) => tool.name) });
  await client.close();
}

function call(client, name, onprogress) {
  const options = { timeout: 120_000, ...(onprogress && { onprogress }) };
  // The second generation of the SDK has no result schema before the options.
  return client.generation === 2
    ? client.callTool({ name, arguments: {} }, options)
    : client.callTool({ name, arguments: {} }, undefined, options);
}
