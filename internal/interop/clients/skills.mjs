// A client that reads all files of all skills and verifies them: node skills.mjs legacy|REVISION URL TOKEN
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient, SkillVerificationError } from '@modelcontextprotocol/client/ext/skills';
import { tell } from './story.mjs';

const [revision, url, token] = process.argv.slice(2);
const client = new Client(
  { name: 'interop-skills', version: '1.0.0' },
  { capabilities: {}, versionNegotiation: { mode: revision === 'legacy' ? 'legacy' : { pin: revision } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
const skills = new SkillsClient(client);
const { skills: listed } = await skills.list();
tell('listed', { names: listed.map((skill) => skill.frontmatter.name).sort() });

let read = 0;
const refused = [];
for (const one of listed) {
  const { skill } = await skills.get(one.uri);
  for (const { uri } of skill.resources) {
    try {
      await skills.read(skill, uri);
      read++;
    } catch (error) {
      if (!(error instanceof SkillVerificationError)) throw error;
      refused.push(`${error.reason} ${error.uri}`);
    }
  }
}
tell('read', { text: String(read) });
tell('refused', { names: refused });
const inside = await skills.readDirectory(listed[0].uri.replace('SKILL.md', 'references'));
tell('directory', { names: inside.resources.map((child) => child.name).sort() });
await client.close();
