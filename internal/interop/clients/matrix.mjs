// What every client from npm does for the matrix of clients, upstreams and features. Each feature is one line of JSON on
// standard output: {"feature": ..., "verdict": "ok" or what was wrong}.
import { existsSync, writeFileSync } from 'node:fs';

const [, url, token, prefix, uriPrefix, notes, marker, list, hopeless] = process.argv.slice(2);
export const headers = { Authorization: `Bearer ${token}` };
export const address = new URL(url);

const uri = (own) => uriPrefix + own;
let patience = 120_000;

function want(got, wanted, what) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Error(`${what} is ${JSON.stringify(got)}, want ${JSON.stringify(wanted)}`);
}

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`no ${what} in time`)), patience)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function until(check, what) {
  for (const end = Date.now() + patience; !(await check()); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (Date.now() > end) throw new Error(`no ${what} in time`);
  }
}

const note = (name) => writeFileSync(`${notes}/${name}`, '');
const noted = (name) => until(() => existsSync(`${notes}/${name}`), name);

// The client is an adapter over one generation of the SDK; seen collects what it was told besides answers.
const features = {
  async list(c) {
    const names = (await c.tools()).map((tool) => tool.name);
    for (const tool of ['echo', 'picture', 'measure', 'climb', 'ask_name']) want(names.includes(prefix + tool), true, `${tool} among ${names}`);
    const own = (all, start) => all.filter((name) => name.startsWith(start)); // others may be behind the same gateway
    want(own((await c.prompts()).map((prompt) => prompt.name), prefix), [prefix + 'greet'], 'prompts');
    want(own((await c.resources()).map((resource) => resource.uri), uriPrefix), [uri('note://one')], 'resources');
    want(own((await c.templates()).map((template) => template.uriTemplate), uriPrefix), [uri('note://{name}/page')], 'templates');
  },
  async call(c) {
    want((await c.call(prefix + 'echo', { marker })).content[0].text, `echo ${marker}`, 'text');
  },
  async image(c) {
    const [block] = (await c.call(prefix + 'picture', { marker })).content;
    want([block.type, block.mimeType, block.data.slice(0, 12)], ['image', 'image/png', 'iVBORw0KGgoA'], 'block');
  },
  async structured(c) {
    const result = await c.call(prefix + 'measure', { marker });
    want(result.structuredContent ?? JSON.parse(result.content[0].text), { celsius: 21.5, marker }, 'structured content');
  },
  async progress(c) {
    const seen = [];
    await c.call(prefix + 'climb', { marker }, { onprogress: (p) => seen.push([p.progress, p.total, p.message]) });
    // The SDK drops a notification that it reads together with the result, so the last one may be missing.
    if (seen.length < 1) throw new Error('no progress');
    want(seen, [1, 2, 3].slice(0, seen.length).map((n) => [n, 3, marker]), 'progress');
  },
  async log(c, seen) {
    await c.loud();
    await c.call(prefix + 'speak', { marker }, { loud: true });
    await until(() => seen.logs.some((l) => l.data === marker && l.level === 'warning'), 'log line');
    want(seen.logs.filter((l) => l.data !== marker), [], 'log lines of others');
  },
  async cancel(c) {
    const stop = new AbortController();
    const call = c.call(prefix + 'hang', { marker }, { signal: stop.signal }).then(() => 'answered', () => 'stopped');
    await noted(`hanging-${marker}`);
    stop.abort();
    want(await within(call, 'end of the call'), 'stopped', 'call');
    await noted(`cancelled-${marker}`);
  },
  async list_changed(c, seen) {
    const before = seen.changes;
    note(`grow-${marker}`);
    await until(() => seen.changes > before, 'list_changed');
    await until(async () => (await c.tools()).some((tool) => tool.name === `${prefix}grown-${marker}`), 'new tool');
  },
  async read(c) {
    for (const own of ['note://one', 'note://two/page']) {
      const [content] = (await c.read(uri(own))).contents;
      want([content.uri, content.text], [uri(own), 'what the note says'], 'contents');
    }
  },
  async subscribe(c, seen) {
    await c.subscribe(uri('note://one'));
    note(`touch-${marker}`);
    await until(() => seen.updates.length > 0, 'resources/updated');
    want(new Set(seen.updates).size === 1 && seen.updates[0], uri('note://one'), 'uri');
  },
  async prompt(c) {
    const { messages } = await c.prompt(prefix + 'greet', { who: marker });
    want(messages[0].content.text, `Greet ${marker}.`, 'text');
    want(messages[1].content.resource.uri, uri('note://one'), 'uri of the embedded resource');
  },
  async completion(c) {
    want((await c.complete({ type: 'ref/prompt', name: prefix + 'greet' }, { name: 'who', value: 'an' })).completion.values, ['ann', 'anna'], 'values');
  },
  async elicitation(c, seen) {
    want((await c.call(prefix + 'ask_name', { marker })).content[0].text, `${marker} is accept name-${marker}`, 'text');
    want(seen.questions, [`name of ${marker}`], 'questions');
  },
  async sampling(c) {
    want((await c.call(prefix + 'ask_model', { marker })).content[0].text, `model of ${marker}`, 'text');
  },
  async roots(c) {
    want((await c.call(prefix + 'ask_roots', { marker })).content[0].text, `file:///${marker}`, 'text');
  },
};

// What a client declares and answers.
export const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };

export function answers(seen) {
  return {
    elicit: (request) => {
      seen.questions.push(request.params.message);
      return { action: 'accept', content: { name: `name-${marker}` } };
    },
    sample: (request) => {
      const content = [request.params.messages[0].content].flat()[0];
      return { role: 'assistant', model: 'm', content: { type: 'text', text: `model of ${content.text}` } };
    },
    roots: () => ({ roots: [{ uri: `file:///${marker}`, name: 'r' }] }),
  };
}

export const nothingSeen = () => ({ logs: [], changes: 0, updates: [], questions: [] });

export async function matrix(client, seen) {
  for (const feature of list.split(',')) {
    let verdict = 'ok';
    patience = hopeless.split(',').includes(feature) ? 1000 : 120_000;
    try {
      await within(features[feature](client, seen), 'end');
    } catch (error) {
      verdict = `${error.message}`;
    }
    process.stdout.write(JSON.stringify({ feature, verdict }) + '\n');
  }
  process.exit(0); // open streams would keep it
}
