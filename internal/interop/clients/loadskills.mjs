// A client that lists skills, and loads each file by file until one is not what its entry says: node loadskills.mjs URL TOKEN list|load
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient, SkillVerificationError } from '@modelcontextprotocol/client/ext/skills';
import { tell } from './story.mjs';

const [url, token, how] = process.argv.slice(2);
const client = new Client({ name: 'interop-skills', version: '1.0.0' }, { capabilities: {}, versionNegotiation: { mode: 'legacy' } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
const skills = new SkillsClient(client);
const { skills: listed } = await skills.list();
tell('listed', { names: listed.map((skill) => skill.frontmatter.name) });

const refused = [];
for (const skill of how === 'load' ? listed : []) {
  try {
    for (const { uri } of skill.resources) await skills.read(skill, uri);
  } catch (error) {
    if (!(error instanceof SkillVerificationError)) throw error;
    refused.push(error.reason);
  }
}
tell('refused', { names: refused });
await client.close();
